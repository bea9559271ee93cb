"""How far the rows of requests are from those that the served version learned, by the rows that are logged.

The log's thread folds them into a profile, in the time of no request. What is told is of the last 10,000 to 20,000 rows.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..monitoring.alarm import GAUGES, MOST_SLOTS, escaped
from ..training.metrics.profile import Profile
from ..training.profiles.drift import ENOUGH_ROWS, Drift, drifts
from ..training.profiles.stored import Profiles, edges_in, profiles_of
from .loaded import Loaded

ROWS = 10_000
"""After so many rows a profile makes room for the next; what is told is of it and the one before it."""
MEAN = ("xpsql_prediction_mean", "Mean prediction of the logged rows.")
SEEN = ("xpsql_drift_rows", "Logged rows that the drift of features is told of.")


Floats = NDArray[np.float32]


class Watched(NamedTuple):
    """What is known of a version's requests.

    Attributes:
        slots: how far each has drifted, the worst first; none where the version has no profile, or rows are too few.
        means: of predictions, by label.
    """

    rows: int
    slots: tuple[Drift, ...]
    means: Mapping[str, float]


class LiveDrift:
    """The drift of the versions that are served. `add` is called by one thread; others may read."""

    def __init__(self) -> None:
        self._profiles: dict[Loaded, tuple[Profile, Profile]] = {}
        self._watched: dict[str, Watched] = {}
        self._numbers: dict[Loaded, int] = {}
        self._lock = threading.Lock()

    def add(self, loaded: Loaded, table: pa.Table, predictions: Floats) -> None:
        """Take in rows of a version, but not of one whose place another has taken.

        Args:
            table: the columns of its inputs.
            predictions: float32[labels, n], as they were served.
        """
        others = [one for one in self._profiles if one is not loaded and one.model == loaded.model]
        if loaded.profiles is None or any(one.since > loaded.since for one in others):
            return
        for older in others:
            del self._profiles[older], self._numbers[older]
        asked, before = loaded.profiled, loaded.profiles
        last, now = self._profiles.setdefault(loaded, (Profile(asked), Profile(asked)))
        number, at = self._numbers.get(loaded, 0), 0
        for batch in loaded.encoded(table) if table.num_rows else ():
            now.add(batch, predictions[: asked.labels, at : at + batch.examples], number + at)
            at += batch.examples
        self._numbers[loaded] = number + at
        both = Profile(asked)
        both.take(last.tally())
        both.take(tally := now.tally())
        watched = watched_of(loaded, before, both)
        if tally.rows >= ROWS:
            self._profiles[loaded] = now, Profile(asked)
        with self._lock:
            self._watched[loaded.model] = watched

    def lines(self) -> Iterator[str]:
        """Yield the gauges in Prometheus' text format."""
        with self._lock:
            watched = sorted(self._watched.items())
        values = {
            "drift": lambda one: one.drift,
            "null_share": lambda one: one.now.null_share,
            "new_share": lambda one: one.now.new_share,
        }
        for column, (name, help) in GAUGES.items():
            yield from (f"# HELP {name} {help}", f"# TYPE {name} gauge")
            for model, found in watched:
                for one in found.slots:
                    if (value := values[column](one)) is not None:
                        yield f'{name}{{model="{escaped(model)}",slot="{escaped(one.slot)}"}} {value:.6g}'
        yield from (f"# HELP {MEAN[0]} {MEAN[1]}", f"# TYPE {MEAN[0]} gauge")
        for model, found in watched:
            for label, mean in found.means.items():
                yield f'{MEAN[0]}{{model="{escaped(model)}",label="{escaped(label)}"}} {mean:.6g}'
        yield from (f"# HELP {SEEN[0]} {SEEN[1]}", f"# TYPE {SEEN[0]} gauge")
        yield from (f'{SEEN[0]}{{model="{escaped(model)}"}} {found.rows}' for model, found in watched)


def watched_of(loaded: Loaded, before: Profiles, profile: Profile) -> Watched:
    """Compare rows of requests with those that a version learned."""
    tally = profile.tally()
    means = {label: float(sums[1] / max(tally.rows, 1)) for label, sums in zip(loaded.columns.labels, tally.sums, strict=False)}
    if tally.rows < ENOUGH_ROWS:
        return Watched(tally.rows, (), means)
    found = drifts(before, profiles_of(tally, loaded.columns, edges_in(before), loaded.weights.has))
    slots = sorted((one for one in found if one.counts), key=lambda one: -(one.drift or 0.0))[:MOST_SLOTS]
    return Watched(tally.rows, tuple(slots), {label: mean for label, mean in means.items() if np.isfinite(mean)})
