"""Benchmarks of speed and quality: see docs/benchmarks.md, and docs/contributing.md for how to add one.

A group is a module of this package. Its function `figures(run)` yields figures; its table TARGETS holds their bounds by name.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

GROUPS = (
    "training",
    "cores",
    "prediction",
    "serving",
    "streams",
    "checkpoints",
    "transport",
    "store",
    "parameters",
    "compact",
    "histories",
    "retrieval",
    "quality",
    "graphs",
    "estimates",
    "spark",
)


class Figure(NamedTuple):
    """A measured number.

    Attributes:
        what: what was measured.
        value: the number; the median where there were several runs.
        unit: its unit; "x" is a ratio.
        target: the bound it is held to, as ">= 1.5"; empty where it only informs.
        peer: the other tool that the number is of, or is a ratio to.
        low, high: the least and the greatest of several runs.
    """

    what: str
    value: float
    unit: str
    target: str = ""
    peer: str = ""
    low: float | None = None
    high: float | None = None

    @property
    def verdict(self) -> str:
        """`pass` or `miss`; empty without a target."""
        if not self.target:
            return ""
        sign, bound = self.target.split()
        return "pass" if (self.value >= float(bound) if sign == ">=" else self.value <= float(bound)) else "miss"

    def line(self) -> str:
        """Return the figure as a line of the runner's table."""
        spread = "" if self.low is None or self.high is None else f"{number(self.low)} to {number(self.high)}"
        return f"{self.what:<72} {number(self.value):>10} {self.unit:<9} {spread:<18} {self.target:>10} {self.verdict}".rstrip()


class Run(NamedTuple):
    """One call of the runner.

    Attributes:
        folder: for models and other files of the run.
        log: the made log, `train.parquet`, `train.vw` and the same of `test`; see log.py.
        data: the folder of published logs, see published.py; None where there is none.
        rounds: how often each measurement is repeated.
        quick: few rows, once: shows that the program works.
    """

    folder: Path
    log: Path
    data: Path | None
    rounds: int
    quick: bool

    def size(self, quick: int, full: int) -> int:
        """Return the size for this run."""
        return quick if self.quick else full


def spread(what: str, values: Sequence[float], unit: str, peer: str = "", target: str = "") -> Figure:
    """Return the median of several runs with the least and the greatest."""
    several = len(values) > 1
    bounds = (min(values), max(values)) if several else (None, None)
    return Figure(what, statistics.median(values), unit, target, peer, *bounds)


def ratio(what: str, over: Sequence[float], under: Sequence[float], peer: str = "") -> Figure:
    """Return the median ratio of runs made in turns."""
    return spread(what, [one / other for one, other in zip(over, under, strict=True)], "x", peer)


def number(value: float) -> str:
    """Write a number with at least three digits."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
