"""ML.CROSSES: the combinations of slots that a version lacks, and what its slots are worth alone, on a query's rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...errors import DataError, StatementError
from ...input.columns import columns_from
from ...input.encoder import Encoder
from ...input.splits import CHUNK_ROWS
from ...scoring.evaluation import Evaluation
from ...scoring.permutation import shuffled, units_of
from ...scoring.prediction import scorer_here
from ..metrics.alone import categories
from ..recipe import algorithm_of
from .look import MOST_ROWS, scored_by_mean
from .screen import BLOCKS, LEVEL, CrossGain, ScreenedRows, alone, crosses, student

if TYPE_CHECKING:
    from ....warehouse.version import Version
    from ...engines.base import Engine
    from ...progress import Reporter
    from ...scoring.scorer import Request, Scorer

MOST, MOST_ORDER = 20, 4
LACKS, TELLS, DEAD, HURTS = "lacks", "tells", "dead", "hurts"
FEWEST_ROWS = 2 * BLOCKS
SMALLEST = 1e-6

SCHEMA = pa.schema(
    [
        ("slots", pa.string()),
        ("order", pa.int64()),
        ("gain", pa.float64()),
        ("low", pa.float64()),
        ("high", pa.float64()),
        ("values", pa.int64()),
        ("verdict", pa.string()),
    ]
)


class RowsScored(NamedTuple):
    """Rows in memory: the model's columns, float64[n] labels, and what the model predicts of them."""

    features: pa.Table
    labels: NDArray[np.float64]
    predictions: NDArray[np.float64]


class MissingCrosses:
    """What a version lacks of a query's rows, checked and to be measured.

    Args:
        order: how many slots are combined at most; 1: each alone.

    Raises:
        StatementError: see Evaluation; or the version predicts no number, or an order that is none.
    """

    def __init__(self, version: Version, engine: Engine, query: str, order: object) -> None:
        if not isinstance(order, int) or isinstance(order, bool) or not 1 <= order <= MOST_ORDER:
            raise StatementError(
                f"ML.CROSSES expects an order of 1 to {MOST_ORDER}, how many slots are combined, got {order!r}."
            )
        if not version.manifest.roles.labels:
            raise StatementError(f"ML.CROSSES compares with a label, and {version.manifest.model} has none.")
        self._version, self._order = version, order
        self._columns = columns_from(version.manifest)
        self._evaluation = Evaluation(version, engine, query, None)
        if self._evaluation.kind not in ("classes", "numbers"):
            what = "several classes" if self._evaluation.classes is not None else "what was taken"
            raise StatementError(f"ML.CROSSES takes labels of 0 or 1, or numbers; {version.manifest.model} predicts {what}.")

    def measure(self, folder: Path, reporter: Reporter) -> pa.Table:
        """Return a row for each combination that the version lacks, best first; by order 1, for each slot.

        Raises:
            DataError: there are too few rows; see Evaluation.
        """
        manifest = self._version.manifest
        request = self._evaluation.request(folder)
        reporter.start(f"ML.CROSSES of {manifest.model} v{self._version.number}", None)
        try:
            scorer = scorer_here(request)
            scored = self._scored(request, scorer)
            found = self._slots(scored, scorer) if self._order == 1 else self._crosses(scored)
        finally:
            reporter.finish("")
        return pa.Table.from_pylist(found, SCHEMA)

    def _scored(self, request: Request, scorer: Scorer) -> RowsScored:
        """Read the first rows of each split, and score them."""
        table = pa.concat_tables(pieces(request)).unify_dictionaries().combine_chunks()
        if table.num_rows < FEWEST_ROWS:
            raise DataError(f"ML.CROSSES needs at least {FEWEST_ROWS} rows with labels, and the query gives {table.num_rows}.")
        features = table.select(list(request.inputs.values())).rename_columns(list(request.inputs))
        labels = self._evaluation.labels_of(table, request.carried[: len(self._evaluation.labels)], 0)[0].astype(np.float64)
        return RowsScored(features, labels, self._predicted(scorer, features))

    def _predicted(self, scorer: Scorer, features: pa.Table) -> NDArray[np.float64]:
        return scorer.predict(features)[:, self._evaluation.places[0]].astype(np.float64)

    def _sample(self, scored: RowsScored) -> ScreenedRows:
        """Return the rows for the screen: slots that are no crosses themselves."""
        encoder = Encoder(self._columns, algorithm_of(self._version.manifest), self._version.manifest.seed, compact=False)
        crossed = {slot.name for slot in self._columns.crosses}
        every = categories(encoder.unlabelled(scored.features), self._columns)
        codes = {name: one for name, one in every.items() if name not in crossed}
        if self._evaluation.classifier:
            means = np.clip(scored.predictions, SMALLEST, 1 - SMALLEST)
            return ScreenedRows(tuple(codes), [*codes.values()], scored.labels, np.log(means / (1 - means)), False)
        spread = float(scored.labels.std()) or 1.0
        return ScreenedRows(tuple(codes), [*codes.values()], scored.labels / spread, scored.predictions / spread, True)

    def _crosses(self, scored: RowsScored) -> list[dict[str, object]]:
        found = crosses(self._sample(scored), self._order, MOST, 0.0)
        return [line(one, LACKS) for one in found]

    def _slots(self, scored: RowsScored, scorer: Scorer) -> list[dict[str, object]]:
        """Return what each slot is worth to the version: by how much the mean loss of a row grows without its values."""
        sample, found = self._sample(scored), []
        sample.labels, sample.scores = scored_by_mean(scored.labels, not sample.numbers)
        tells = {one.names[0]: one for one in alone(sample)}
        random, before = np.random.default_rng(self._version.manifest.seed), self._losses(scored.labels, scored.predictions)
        for unit in units_of(self._columns):
            after = self._losses(scored.labels, self._predicted(scorer, shuffled(scored.features, unit, random)))
            known = tells.get(unit.slots)
            worth = interval(unit.slots, after - before, 0 if known is None else known.values)
            dead = known is not None and not known.found and worth.low <= 0
            found.append(line(worth, HURTS if worth.high < 0 else DEAD if dead else TELLS))
        return sorted(found, key=lambda row: -float(str(row["gain"])))

    def _losses(self, labels: NDArray[np.float64], predictions: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the loss of each row."""
        if not self._evaluation.classifier:
            return (labels - predictions) ** 2 / 2 / (float(labels.var()) or 1.0)
        means = np.clip(predictions, SMALLEST, 1 - SMALLEST)
        return -(labels * np.log(means) + (1 - labels) * np.log1p(-means))


def interval(name: str, differences: NDArray[np.float64], values: int) -> CrossGain:
    """Return a mean of rows with its interval of 95 % by blocks of neighbouring rows."""
    means = np.array([block.mean() for block in np.array_split(differences, BLOCKS)])
    half = student(1 - LEVEL / 2) * float(means.std(ddof=1) / np.sqrt(BLOCKS))
    gain = float(differences.mean())
    return CrossGain((name,), gain, gain - half, gain + half, values, abs(gain) > half)


def pieces(request: Request) -> Iterator[pa.Table]:
    """Yield the first rows of each split."""
    wanted = list(dict.fromkeys([*request.inputs.values(), *request.carried]))
    schema: Sequence[pa.Field] = [request.scan.schema.field(name) for name in wanted]
    yield pa.schema(schema).empty_table()
    each = -(-MOST_ROWS // max(len(request.splits), 1))
    for split in request.splits:
        left = each
        for table in request.scan.read(split, wanted, CHUNK_ROWS):
            yield table.slice(0, left).rename_columns(wanted).cast(pa.schema(schema))
            left -= table.num_rows
            if left <= 0:
                break


def line(gain: CrossGain, verdict: str) -> dict[str, object]:
    """Return a row of ML.CROSSES."""
    return {
        "slots": " * ".join(gain.names),
        "order": len(gain.names),
        "gain": gain.gain,
        "low": gain.low,
        "high": gain.high,
        "values": gain.values,
        "verdict": verdict,
    }
