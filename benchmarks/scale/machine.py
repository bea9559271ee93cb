"""A training whose tasks share the cores of one machine.

Where n threads are at work on c cores, each advances at c / n of its speed. So the training is simulated as if each had a core
of its own, and time is stretched by max(1, n / c) afterwards, which is exact where nothing is waited for but the work of
others. An injected delay is real time, so it is shortened before by what the stretch comes to.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from benchmarks.scale.model import Simulation
from benchmarks.scale.setting import Floats, Setting, changed, rate_of
from xpsql.platform.training.planning.forecast import UnitCosts

ROUNDS = 4


class Predicted(NamedTuple):
    """What a training on one machine should come to: rows a second, and the seconds of its waves of pulls."""

    rate: float
    waves: Floats


def stretched(intervals: Floats, cores: int) -> tuple[Floats, Floats]:
    """Return moments of a training with a core for each thread, and what they are with so many cores for all."""
    moments = np.concatenate([intervals[:, 0], intervals[:, 1]])
    order = np.argsort(moments, kind="stable")
    moments, working = moments[order], np.cumsum(np.repeat([1, -1], len(intervals))[order])
    real = np.concatenate([[0.0], np.cumsum(np.diff(moments) * np.maximum(1, working[:-1] / cores))])
    return moments, real + moments[0]


def crowded(setting: Setting, cores: int, crowd: float) -> Setting:
    """Return the training with the work of processes that empty each other's caches.

    Args:
        crowd: what each doubling of the processes a core adds, as a part.
    """
    factor = 1 + crowd * math.log2(max(1.0, (setting.workers + setting.shards) / cores))
    rates = UnitCosts(*(one * factor for one in setting.rates))
    return changed(setting, rates=rates, load=setting.load._replace(row_seconds=setting.load.row_seconds * factor))


def on_cores(setting: Setting, cores: int, crowd: float, seed: int = 0) -> Predicted:
    """Return what a training comes to whose tasks share so many cores."""
    setting, slowed = crowded(setting, cores, crowd), 1.0
    for _ in range(ROUNDS if setting.late else 1):
        outcome = Simulation(changed(setting, late=setting.late / slowed), seed, record=True).run()
        moments, real = stretched(outcome.intervals, cores)
        slowed = float(real[-1] / moments[-1])
    ends, waves = np.interp(outcome.ends, moments, real), np.interp(outcome.waves, moments, real)
    return Predicted(rate_of(ends, setting.batch), waves[:, 1] - waves[:, 0])
