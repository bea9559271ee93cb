"""The charts of a report: how versions learned, how they predict, and what they hold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from ...warehouse.manifest import Manifest
from ...warehouse.trainings.progress import LEARNING, READING, latest, read_progress
from ...warehouse.version import Version
from ..models.weights import magnitude, weights
from ..training.metrics import headlines
from ..training.profiles.drift import drifts
from ..training.profiles.stored import profiles_in
from .charts import Bars, Line, bars, interval, lines, merged

if TYPE_CHECKING:
    from ..session import Session

LIFE = ("features", "admitted", "expired")
SLOTS, SEGMENTS = 30, 20
CALIBRATED = 20
INTERCEPT = "(intercept)"
SCORED = "Each example is scored before it is learned from; in passes after the first the model has seen it before."
Chart = tuple[str, str, str]


@dataclass(frozen=True)
class Trained:
    """A version of a page: its name there, and the number of its colour."""

    version: Version
    name: str
    color: int

    @property
    def manifest(self) -> Manifest:
        return self.version.manifest

    @cached_property
    def _every(self) -> list[dict[str, Any]]:
        return latest(read_progress(self.version.folder))

    @property
    def _lines(self) -> list[dict[str, Any]]:
        return [line for line in self._every if "segment" not in line and "validation" not in line]

    @property
    def windows(self) -> list[dict[str, Any]]:
        """Metrics while it learned, in windows where there are any, for each label."""
        return [line for line in self._lines if "window" in line] or self._lines

    @property
    def of_rows(self) -> list[dict[str, Any]]:
        """Its lines of the first label, which have what is of no label."""
        return [line for line in self.windows if line.get("label") == self.windows[0].get("label")]

    @property
    def validated(self) -> list[dict[str, Any]]:
        return [line for line in self._every if "validation" in line]

    @property
    def segments(self) -> list[dict[str, Any]]:
        return [line for line in self._every if "segment" in line]

    @property
    def spent(self) -> dict[str, Any] | None:
        """The seconds of its steps."""
        return next((line for line in reversed(self._lines) if "compute_seconds" in line), None)

    @property
    def counts(self) -> tuple[float, float] | None:
        """Positives and negatives that it learned from; None where labels are no classes."""
        if not self.manifest.learned.calibration:
            return None
        _, labels, examples = np.array(self.manifest.learned.calibration, float).T
        positives = float((labels * examples).sum())
        return positives, float(examples.sum()) - positives

    def examples(self, line: dict[str, Any]) -> float:
        """Return how many examples had been learned from where a line was written."""
        return float(line["batch"] * self.manifest.sizes.batch_size)


def charts(session: Session, shown: Sequence[Trained]) -> Iterator[Chart]:
    """Yield the charts that have data: title, a sentence, and the drawing."""
    for name in headlines():
        if curves := learning(shown, name):
            yield f"Learning curve: {name}", SCORED, lines(curves, "examples", name)
    held_out = [one for one in shown if one.validated]
    if any(line["pass"] for one in held_out for line in one.validated):
        for name in headlines():
            if curves := [line for one in held_out for line in by_pass(one, name)]:
                yield f"Rows held out: {name}", "After each pass.", lines(curves, "passes", name)
    if drift := learning(shown, "pcopc"):
        ends = (min(min(line.x) for line in drift), max(max(line.x) for line in drift))
        text = "Predicted over actual clicks as learning went on; at 1 there are as many as predicted."
        yield "Drift", text, lines([Line("even", ends, (1, 1), None), *drift], "examples", "pcopc")
    yield from of_predictions([one for one in shown if one.manifest.learned.calibration])
    yield from of_segments(shown)
    yield from of_drift(session, shown)
    for one in shown:
        measured = one.of_rows
        kinds = [name for name in LIFE if any(line.get(name) is not None for line in measured)]
        if len(measured) > 1 and kinds:
            drawn = [
                Line(k, [*map(one.examples, measured)], [line.get(k) for line in measured], i) for i, k in enumerate(kinds)
            ]
            text = "Rows in memory, and those admitted and expired so far."
            yield titled("The life of rows", one, shown), text, lines(drawn, "examples", "rows")
    yield from of_time(shown)
    yield from of_slots(session, [one for one in shown if one.manifest.status in ("ready", "held")])


def titled(title: str, one: Trained, shown: Sequence[Trained]) -> str:
    return f"{title}: {one.name}" if len(shown) > 1 else title


def learning(shown: Sequence[Trained], name: str) -> list[Line]:
    """Return a metric while versions learned, a line for each label and pass; nothing where all are points."""
    found = [line for one in shown for line in learned(one, name, alone=len(shown) == 1)]
    return found if any(len(line.x) > 1 for line in found) else []


def learned(one: Trained, name: str, alone: bool) -> Iterator[Line]:
    """Yield a metric while a version learned; `alone`: each line has a colour of its own."""
    curves: dict[tuple[str | None, int], list[dict[str, Any]]] = {}
    for line in one.windows:
        if line.get(name) is not None:
            curves.setdefault((line.get("label"), line.get("pass") or 0), []).append(line)
    labels, passes = ({curve[part] for curve in curves} for part in (0, 1))
    for place, ((label, number), own) in enumerate(curves.items()):
        words = [one.name, *([str(label)] if len(labels) > 1 else []), *([f"pass {number + 1}"] if len(passes) > 1 else [])]
        color = place % 4 if alone else one.color
        yield Line(", ".join(words), [*map(one.examples, own)], [line[name] for line in own], color)


def by_pass(one: Trained, name: str) -> Iterator[Line]:
    """Yield a metric of the rows held out after each pass, a line for each label."""
    labels = dict.fromkeys(line.get("label") for line in one.validated)
    for number, label in enumerate(labels):
        own = [line for line in one.validated if line.get("label") == label and line.get(name) is not None]
        if own:
            title = one.name if label is None or len(labels) == 1 else f"{one.name}, {label}"
            yield Line(title, [line["pass"] + 1 for line in own], [line[name] for line in own], (one.color + number) % 4)


def of_predictions(shown: Sequence[Trained]) -> Iterator[Chart]:
    """Yield charts of predictions and labels, in parts of equal size."""
    if not shown:
        return
    roc, calibrated, histogram, ends = [Line("even", (0, 1), (0, 1), None)], [], [], [0.0]
    for one in shown:
        parts = np.array(one.manifest.learned.calibration, float).reshape(-1, 3)
        predicted, labels, examples = merged(one.manifest.learned.calibration, CALIBRATED).T
        low, high = np.array([interval(min(share, 1), n) for share, n in zip(labels, examples, strict=True)]).T
        calibrated.append(Line(one.name, predicted.tolist(), labels.tolist(), one.color, (low.tolist(), high.tolist())))
        ends += [predicted.max(), min(high.max(), 2 * labels.max())]
        if min(one.counts or (0, 0)):
            roc.append(roc_line(one, parts))
        if density := density_line(one, parts):
            histogram.append(density)
    if len(roc) > 1:
        text = "Part of the clicks found over part of the others taken for clicks, with intervals of 95 %."
        yield "ROC", text, lines(roc, "part of others", "part of clicks", (0, 1))
    top = max(ends) * 1.02 or 1.0
    even = Line("even", (0, top), (0, top), None)
    text = "Mean label by mean prediction, in parts of equal size, with intervals of 95 %."
    yield "Calibration", text, lines([even, *calibrated], "mean prediction", "mean label", (0, top))
    if histogram:
        text = "How many examples have a prediction, per unit of it, estimated from parts of equal size."
        yield "Predictions", text, lines(histogram, "prediction", "density")


def roc_line(one: Trained, parts: np.ndarray) -> Line:
    clicks, others = parts[::-1, 1] * parts[::-1, 2], (1 - parts[::-1, 1]) * parts[::-1, 2]
    found, wrong = (np.concatenate([[0], np.cumsum(values) / values.sum()]) for values in (clicks, others))
    low, high = np.array([interval(min(share, 1), clicks.sum()) for share in found]).T
    return Line(one.name, wrong.tolist(), found.tolist(), one.color, (low.tolist(), high.tolist()))


def density_line(one: Trained, parts: np.ndarray) -> Line | None:
    """Return the density of predictions between the means of parts; None where they are one value."""
    means, edges = np.unique(parts[:, 0], return_index=True)
    shares = np.add.reduceat(parts[:, 2], edges) / parts[:, 2].sum()
    if len(means) < 3:
        return None
    middle = (means[1:] + means[:-1]) / 2
    x = np.repeat(middle, 2)[1:-1]
    y = np.repeat(shares[1:-1] / np.diff(middle), 2)
    return Line(one.name, [x[0], *x.tolist(), x[-1]], [0, *y.tolist(), 0], one.color, marked=False)


def of_drift(session: Session, shown: Sequence[Trained]) -> Iterator[Chart]:
    """Yield how far the rows of each version are from those of the version that it goes on from, slot by slot."""
    for one in shown:
        parent = one.manifest.parent
        if parent is None or parent not in {version.number for version in session.models.present(one.manifest.model)}:
            continue
        before, now = (profiles_in(version) for version in (session.models.find(one.manifest.model, parent), one.version))
        found = sorted((drift for drift in drifts(before, now) if drift.js is not None), key=lambda drift: -(drift.js or 0))
        if found := found[:SEGMENTS]:
            texts = [f"{drift.js:.4f}, by chance {drift.noise:.4f}" for drift in found]
            groups = [
                Bars("divergence", [drift.js for drift in found], texts, one.color),
                Bars("by chance", [drift.noise for drift in found], texts, (one.color + 1) % 4),
            ]
            text = f"How far the rows that {one.name} learned are from those of v{parent}, and how far they would be by chance."
            yield titled("Drift of rows", one, shown), text, bars([drift.slot for drift in found], groups, "divergence")


def of_segments(shown: Sequence[Trained]) -> Iterator[Chart]:
    """Yield the metrics of the values of EVALUATE's BY column, weighted by examples over all windows."""
    for name in headlines():
        found = []
        for one in shown:
            sums: dict[str, list[float]] = {}
            for line in one.segments:
                if line.get(name) is not None:
                    total = sums.setdefault(str(line["segment"]), [0, 0])
                    total[0] += line[name] * line["examples"]
                    total[1] += line["examples"]
            found.append(sums)
        sizes: dict[str, float] = {}
        for sums in found:
            for segment, (_, examples) in sums.items():
                sizes[segment] = sizes.get(segment, 0) + examples
        names = sorted(sizes, key=lambda segment: -sizes[segment])[:SEGMENTS]
        if not names:
            continue
        groups = []
        for one, sums in zip(shown, found, strict=True):
            means = [sums[n][0] / sums[n][1] if n in sums else None for n in names]
            texts = [
                f"{mean:.4f} of {sums[n][1]:,.0f} examples" if mean is not None else ""
                for n, mean in zip(names, means, strict=True)
            ]
            groups.append(Bars(one.name, means, texts, one.color))
        by = next((one.manifest.roles.by for one in shown if one.manifest.roles.by and one.segments), "segment")
        yield f"{name} by {by}", "Mean over windows, the values with the most examples first.", bars(names, groups, name)


def of_time(shown: Sequence[Trained]) -> Iterator[Chart]:
    spent = [(one, one.spent) for one in shown]
    steps = [*READING, *LEARNING]
    groups = []
    for one, line in spent:
        if line is not None:
            values = [line[f"{step}_seconds"] for step in steps]
            groups.append(Bars(one.name, values, [f"{value:.2f} s" for value in values], one.color))
    if groups:
        text = (
            "Seconds of all workers. A long input wait means that reading is the bottleneck, a long read wait that learning is."
        )
        yield "Where the time went", text, bars([step.replace("_", " ") for step in steps], groups, "seconds")


def of_slots(session: Session, shown: Sequence[Trained]) -> Iterator[Chart]:
    """Yield the size of weights by slot; the intercept is listed separately, as it is one weight, and a large one."""
    found = [sizes(session, one.version) for one in shown]
    mean = {slot: row["mean"] for rows in reversed(found) for slot, row in rows.items()}
    names = sorted(mean.keys() - {INTERCEPT}, key=lambda slot: -mean[slot])[:SLOTS]
    if not names:
        return
    groups = []
    for one, rows in zip(shown, found, strict=True):
        values = [rows[name]["mean"] if name in rows else None for name in names]
        texts = [f"{rows[n]['features']:,} features, largest {rows[n]['largest']:.4g}" if n in rows else "" for n in names]
        groups.append(Bars(one.name, values, texts, one.color))
    biases = [f"{one.name} {rows[INTERCEPT]['mean']:.4g}" for one, rows in zip(shown, found, strict=True) if INTERCEPT in rows]
    apart = f" The intercept's: {', '.join(biases)}." if biases else ""
    yield "Weights by slot", f"Mean size of the weights of each slot.{apart}", bars(names, groups, "mean size of weights")


def sizes(session: Session, version: Version) -> dict[str, dict[str, Any]]:
    """Return features, mean and largest size of the weights of each slot."""
    table = version.manifest.tables[0]
    with weights(version, session.engine) as relation:
        rows = f"({relation.select_table(table.name, ['slot'], {'size': magnitude(table)})})"
        query = f"SELECT slot, count(*) AS features, avg(size) AS mean, max(size) AS largest FROM {rows} AS r GROUP BY slot"
        found = [row for batch in session.engine.reader(query) for row in batch.to_pylist()]
    return {row["slot"] or "(shared)": row for row in found}
