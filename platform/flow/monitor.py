"""What is known of a training under way: metrics, the reporter's updates and the version's progress lines."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..ps.shard import Description
from .metrics import Metrics

if TYPE_CHECKING:
    from ...warehouse.draft import Draft
    from ..progress import Reporter
    from .batches import Batch
    from .job import Report

PROGRESS_SECONDS = 2.0
TELL_SECONDS = 0.25


class Monitor:
    """Turns what workers tell into metrics, updates and lines.

    Args:
        metrics: of a new training.
    """

    def __init__(self, metrics: Metrics, draft: Draft, reporter: Reporter) -> None:
        self.metrics = metrics
        self._describe: Callable[[], Description] | None = None
        self._draft = draft
        self._reporter = reporter
        self._batches = 0
        self._reports: dict[int, Report] = {}
        self._lock = threading.Lock()
        self._began = self._written = self._told = time.monotonic()

    def watch(self, describe: Callable[[], Description]) -> None:
        """Let lines of progress say what the shards hold, as `describe` tells it."""
        self._describe = describe

    def step(self, batch: Batch, predictions: NDArray[np.float32]) -> None:
        """Count a batch that was learned from, scored before; tell once in a while."""
        with self._lock:
            self._batches += 1
            self.metrics.add(batch.label[0, : batch.examples], predictions)
            self._tell_at_times()

    def absorb(self, report: Report) -> None:
        """Take in what a worker elsewhere tells, which replaces what it told before; tell once in a while."""
        with self._lock:
            self._reports[report.worker] = report
            self._batches = sum(one.batches for one in self._reports.values())
            self.metrics = Metrics.of(self.metrics.classifier, (one.tally for one in self._reports.values()))
            self._tell_at_times()

    def write(self, described: Description, weights: Mapping[str, float]) -> None:
        """Write a line of progress and update the reporter.

        Args:
            weights: the range of weights, where it is known.
        """
        self._written = time.monotonic()
        metrics = self.metrics.as_dict()
        counted = {"rows": described.rows, **weights, "violations": 0, **described.reports}
        speed = self.metrics.examples / max(self._written - self._began, 1e-9)
        self._draft.progress({"batch": self._batches, **metrics, **counted, "examples_per_second": speed})
        self._tell(metrics)

    def _tell_at_times(self) -> None:
        now = time.monotonic()
        if self._describe is not None and now - self._written >= PROGRESS_SECONDS:
            self.write(self._describe(), {})
        elif now - self._told >= TELL_SECONDS:
            self._tell(self.metrics.as_dict())

    def _tell(self, metrics: Mapping[str, float | None]) -> None:
        self._told = time.monotonic()
        shown = {name: value for name in ("logloss", "auc") if (value := metrics[name]) is not None}
        self._reporter.update(self.metrics.examples, shown)
