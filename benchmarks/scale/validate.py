"""Hold the simulation to trainings of 1 to 8 shards and workers on this machine: it predicts all of them, the predictions are
written to a file, and then they are measured.

Workers and shards share the cores, so most points say whether work is counted right; where answers are made late cores are not
the limit, and they say whether waiting is.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks import Figure
from benchmarks.__main__ import RESULTS, document
from benchmarks.process import num_cores
from benchmarks.scale.constants import ALGORITHMS, CROWD, Constants
from benchmarks.scale.machine import Predicted, on_cores
from benchmarks.scale.processes import Asked, Found, Processes, given_of, statement_of
from benchmarks.scale.setting import changed

MOST_MEDIAN, MOST_ERROR, MOST_MIDDLE, MOST_LAST = 0.08, 0.15, 0.20, 0.40
"""What is accepted: the median error of all points' rows a second, the error of any, and of waves' p50 and p99."""
SIMULATED_BATCHES = 60
"""Of each worker."""


class Point(NamedTuple):
    """A training that is predicted and measured."""

    name: str
    asked: Asked

    @property
    def text(self) -> str:
        """Return it in words."""
        one = self.asked
        late = f", answers {one.late * 1000:g} ms late" if one.late else ""
        ahead = f", {one.ahead} pulls ahead" if one.ahead else ""
        return f"{self.name}, {one.sync}, {one.workers} workers, {one.shards} shards, batch {one.batch:,}{ahead}{late}"


def points() -> list[Point]:
    """Return the points; none of them is one that constants were fitted to."""
    free = {1024: ((2, 2), (2, 1), (1, 8), (8, 1), (8, 8)), 4096: ((2, 2), (4, 4), (8, 8)), 16384: ((1, 2), (2, 4), (8, 2))}
    found = [Point("xftrl", Asked(s, w, batch)) for batch, places in free.items() for w, s in places]
    found += [Point("xftrl", Asked(s, w, b, "bsp")) for w, s, b in ((2, 2, 1024), (8, 4, 1024), (4, 2, 4096), (8, 8, 4096))]
    late = [(w, ahead, 0.02) for w in (2, 8) for ahead in (0, 1, 4)]
    late += [(2, ahead, seconds) for ahead in (0, 1) for seconds in (0.005, 0.04)]
    found += [Point("xftrl", Asked(1, w, 1024, "asp", ahead, seconds)) for w, ahead, seconds in late]
    found += [Point("xnn", Asked(s, w, 1024)) for w, s in ((2, 2), (4, 2), (8, 8))]
    found += [Point("xnn", Asked(s, w, 1024, "bsp")) for w, s in ((2, 2), (4, 4))]
    return [*found, Point("xnn", Asked(2, 4, 256)), Point("xnn", Asked(1, 2, 1024, "asp", 1, 0.02))]


def predicted(point: Point, constants: Constants) -> Predicted:
    """Return what a training should come to on this machine."""
    one = point.asked
    setting = constants.setting(point.name, one.workers, one.shards, one.batch, SIMULATED_BATCHES)
    setting = changed(setting, sync=one.sync, ahead=one.ahead, late=one.late)
    crowd = constants.values[f"{point.name}: {CROWD}"]
    return on_cores(setting, num_cores(), crowd)


def quantiles(waves: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> tuple[float, float]:
    """Return the median and the 99th of a hundred, in ms."""
    return float(np.quantile(waves, 0.5)) * 1000, float(np.quantile(waves, 0.99)) * 1000


def predictions(chosen: Sequence[Point], constants: Constants) -> Iterator[Figure]:
    """Yield what is predicted of each point."""
    for point in chosen:
        said = predicted(point, constants)
        for what, value, unit in zip(KINDS, (said.rate, *quantiles(said.waves)), UNITS, strict=True):
            yield Figure(f"{point.text}: {what}", value, unit)


KINDS, UNITS = ("rows/s", "wave, p50", "wave, p99"), ("rows/s", "ms", "ms")
BOUNDS = dict(zip(KINDS, (MOST_ERROR, MOST_MIDDLE, MOST_LAST), strict=True))


def measurements(chosen: Sequence[Point], log: Path, folder: Path, quick: bool) -> Iterator[tuple[Point, Found]]:
    """Yield what each point comes to, the points of an algorithm by one set of processes."""
    for name, (using, _) in ALGORITHMS.items():
        own = [point for point in chosen if point.name == name]
        if not own:
            continue
        shards, workers = (max(getattr(one.asked, kind) for one in own) for kind in ("shards", "workers"))
        with given_of(statement_of(using, log), folder) as given, Processes(given, shards, workers) as processes:
            for point in own:
                warm, seconds = (0.3, 0.5) if quick else (0.8, 2.5)
                yield point, processes.measure(point.asked._replace(warm=warm, seconds=seconds))


def compared(said: Mapping[str, float], found: Sequence[tuple[Point, Found]]) -> Iterator[Figure]:
    """Yield predicted and measured values beside each other, and their errors as parts of what was measured."""
    errors: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for point, taken in found:
        values = (taken.rate(point.asked.batch), *quantiles(taken.waves()))
        for kind, unit, value in zip(KINDS, UNITS, values, strict=True):
            told = said[f"{point.text}: {kind}"]
            errors[kind].append(abs(told / value - 1))
            yield Figure(f"{point.text}: {kind}, predicted", told, unit)
            yield Figure(f"{point.text}: {kind}, measured", value, unit)
            yield Figure(f"{point.text}: {kind}, error", errors[kind][-1], "x", f"<= {BOUNDS[kind]}")
    yield Figure("median error of rows/s", float(np.median(errors["rows/s"])), "x", f"<= {MOST_MEDIAN}")
    yield Figure("largest error of rows/s", max(errors["rows/s"]), "x", f"<= {MOST_ERROR}")


def validated(constants: Constants, log: Path, folder: Path, quick: bool, results: Path = RESULTS) -> list[Figure]:
    """Predict, write that to `results`, measure, and return both."""
    command, chosen = "python -m benchmarks.scale", points()[:1] if quick else points()
    said = list(predictions(chosen, constants))
    text = json.dumps(document("scale_predictions", said, command), indent=1)
    (results / "scale_predictions.json").write_text(text + "\n", encoding="utf-8")
    found = []
    for point, taken in measurements(chosen, log, folder, quick):
        found.append((point, taken))
        print(f"{point.text}: {taken.rate(point.asked.batch):,.0f} rows/s", flush=True)
    return list(compared({figure.what: figure.value for figure in said}, found))
