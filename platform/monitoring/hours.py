"""Metrics of rows with labels hour by hour, and the alarm that takes two hours running."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..errors import StatementError, Subject
from ..training.metrics.measured import MEASURED_ON, QUERY
from ..training.metrics.metrics import LabelMetrics, Targets

SUBJECT = Subject("--tolerance")
HOUR, LOW, HIGH = "hour", "pcopc_low", "pcopc_high"
SHOWN = ("pcopc", "logloss", "ece")
SCHEMA = pa.schema(
    [
        (HOUR, pa.timestamp("us", "UTC")),
        ("label", pa.string()),
        ("examples", pa.int64()),
        ("labels", pa.float64()),
        ("pcopc", pa.float64()),
        (LOW, pa.float64()),
        (HIGH, pa.float64()),
        ("logloss", pa.float64()),
        ("ece", pa.float64()),
        MEASURED_ON,
    ]
)
LEVEL = 0.95


class Hourly(NamedTuple):
    """What predictions are measured against, hour by hour.

    Attributes:
        labels: by name.
        measured: what they are, see Algorithm.
    """

    labels: tuple[str, ...]
    measured: str

    @property
    def counts(self) -> bool:
        """Whether sums of labels are counts, which have an interval."""
        return self.measured == "classes" or "counts" in self.measured.split()

    def query(self, version: str, relation: str, time: str) -> str:
        """Return the query of hours, labels and predictions."""
        columns = [f"`{name}`, `predicted_{name}`" for name in self.labels]
        hour = f"date_trunc('HOUR', CAST(`{time}` AS TIMESTAMP)) AS `{HOUR}`"
        return f"SELECT {', '.join((hour, *columns))} FROM ML.PREDICT({version}, ({relation}))"

    def table(self, rows: pa.Table) -> pa.Table:
        """Return a row for each hour and label, hours ascending; rows without a time are in none."""
        rows = rows.filter(pc.is_valid(rows[HOUR])).sort_by(HOUR)
        hours = rows[HOUR].combine_chunks()
        starts = pc.run_end_encode(hours).run_ends.to_numpy() if len(hours) else np.zeros(0, np.int32)
        found, start = [], 0
        for end in starts.tolist():
            part = rows.slice(start, end - start)
            found += [self._row(part, hours[start].as_py(), label) for label in self.labels]
            start = end
        return pa.Table.from_pylist(found, SCHEMA)

    def _row(self, part: pa.Table, hour: Any, label: str) -> dict[str, Any]:
        metrics = LabelMetrics(Targets.of([label], self.measured, False))
        truth, said = (
            part[name].cast(pa.float32()).to_numpy().astype(np.float32)[None] for name in (label, f"predicted_{label}")
        )
        metrics.add(truth, said)
        values, labels = metrics.by_label()[label], float(truth.sum(dtype=np.float64))
        low, high = poisson(labels) if self.counts else (None, None)
        expected = float(said.sum(dtype=np.float64))
        return {
            HOUR: hour,
            "label": label,
            "examples": part.num_rows,
            "labels": labels,
            **{name: values.get(name) for name in SHOWN},
            LOW: expected / high if high else None,
            HIGH: expected / low if low else None,
            MEASURED_ON.name: QUERY,
        }


def poisson(count: float) -> tuple[float, float]:
    """Return the interval of 95 % of the mean of a Poisson variable that was `count`.

    Source: Garwood, "Fiducial Limits for the Poisson Distribution", Biometrika 1936.
    """
    from scipy.special import gammaincinv

    miss = (1 - LEVEL) / 2
    low = float(gammaincinv(count, miss)) if count > 0 else 0.0
    return low, float(gammaincinv(count + 1, 1 - miss))


def twice_outside(table: pa.Table, tolerance: float) -> str | None:
    """Return where pcopc's interval lies outside of 1 +- tolerance, on the same side, in two hours running that have rows; None
    where it never does.

    A single hour may be chance, or an hour that differs from others.

    Raises:
        StatementError: sums of labels are no counts, which alone have an interval.
    """
    last: dict[str, tuple[int, dict[str, Any]]] = {}
    for row in table.to_pylist():
        if row[HIGH] is None and row[LOW] is None:
            raise StatementError(
                f"{SUBJECT} is for labels that are 0 or 1, or counts, whose sums have an interval. Leave it out, and give "
                "--fail-when a condition on mae or rmse.",
                subject=SUBJECT,
            )
        side = -1 if row[HIGH] is not None and row[HIGH] < 1 - tolerance else 1 if row[LOW] > 1 + tolerance else 0
        before = last.get(row["label"])
        if side and before is not None and before[0] == side:
            return f"pcopc of {row['label']} leaves 1 +- {tolerance:g} in two hours running: {said(before[1])}, {said(row)}"
        last[row["label"]] = side, row
    return None


def said(row: dict[str, Any]) -> str:
    pcopc = "infinite" if row["pcopc"] is None else f"{row['pcopc']:.3g}"
    high = "infinity" if row[HIGH] is None else f"{row[HIGH]:.3g}"
    return f"{pcopc} ({row[LOW]:.3g} to {high}) at {row[HOUR]:%Y-%m-%d %H:%M}"
