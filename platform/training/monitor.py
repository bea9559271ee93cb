"""The monitor of a running training: metrics, the reporter's updates and the version's progress lines."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ...warehouse.trainings.progress import LEARNING, READING
from ..errors import LostError, XpsqlError
from ..input.timing import Clocks, Compiled, Timings, summed
from ..ps.messages import Description
from ..ps.watermarks import Turn, as_lines, from_lines
from .checkpoints.driver_state import DriverState
from .checkpoints.warm_start import PausedError
from .metrics import headlines, metric_names
from .metrics.labels import Values, flat
from .metrics.metrics import LabelMetrics, Targets, weight_range
from .metrics.observed import Observations, Observed
from .metrics.passes import PassMetrics, PassTally, told_of
from .metrics.validations import Validated, Validations
from .metrics.windows import Window, WindowPart, metrics_of, missing_of

if TYPE_CHECKING:
    from ...warehouse.draft import Draft
    from ..input.batches import Batch
    from ..progress import Reporter
    from .checkpoints.checkpointer import Checkpointer
    from .row_files.saved import KeptPass
    from .tasks.reports import Report

PROGRESS_SECONDS = 2.0
TELL_SECONDS = 0.25
OF_STORE = ("features", "violations", "min_weight", "max_weight")


class ProgressLines(Protocol):
    """A receiver of progress lines: a version's draft."""

    def progress(self, values: Mapping[str, Any]) -> None: ...


class Monitor:
    """Turns the reports of workers into metrics, updates of progress and lines of progress.jsonl.

    Args:
        targets: what predictions are measured against.
        evaluated: windows are measured.

    Attributes:
        passes: the metrics of each pass.
        windows: of its evaluation, by key; a replay changes none that is whole.
        validations: of the passes so far.
        kept: the rows of the best pass, written; None where the last one is kept.
        before_round: how far it was when its round began; None in the first one.
        recoveries: from losses of tasks, so far.
        compiled: what this process has compiled.
        observed: what it observes of batches beside metrics.
    """

    def __init__(
        self,
        targets: Targets,
        draft: ProgressLines,
        reporter: Reporter,
        evaluated: bool,
        patience: int | None = None,
        rounds: bool = False,
    ) -> None:
        self.windows: dict[tuple[int, int, int], Window] = {}
        self.compiled = Compiled()
        self.observed = Observed(Observations())
        self._clocks: list[Clocks] = []
        self._elsewhere: dict[tuple[int, int], Timings] = {}
        self._evaluated = evaluated
        self._targets = targets
        self.validations = Validations(targets.final, patience, rounds)
        self.before_round: DriverState | None = None
        self.kept: KeptPass | None = None
        self.passes = PassMetrics(targets.ungrouped, keeps_all=False)
        self._describe: Callable[[], Description] | None = None
        self._draft = draft
        self._reporter = reporter
        self.recoveries = 0
        self._held_up = -math.inf
        self._counted: dict[Turn, int] = {}
        self._window: dict[str, float] = {}
        self._lock = threading.Lock()
        self._began = self._written = self._told = time.monotonic()

    def watch(self, describe: Callable[[], Description]) -> None:
        """Let lines of progress describe the shards, by `describe`."""
        self._describe = describe

    def follow(self, clocks: Sequence[Clocks]) -> None:
        """Continue the timings of workers that were at work before."""
        self._clocks = list(clocks)

    def clocks(self) -> Clocks:
        """Return the clocks of a worker of this process."""
        with self._lock:
            self._clocks.append(Clocks())
            return self._clocks[-1]

    def step(self, batch: Batch, predictions: NDArray[np.float32]) -> None:
        """Count a batch that was learned from, scored before, unless it is counted; report once in a while."""
        if batch.counted:
            return
        with self._lock:
            self._counted[Turn(batch.id.pass_number, batch.id.split)] = batch.id.batch + 1
            self.passes.add(batch.id.pass_number, batch.label[:, : batch.examples], predictions)
            self._tell_at_times()

    @property
    def metrics(self) -> LabelMetrics:
        """The metrics of the first pass, in which every example is predicted before it is learned from."""
        return self.passes.first

    @property
    def counted(self) -> dict[Turn, int]:
        """How many batches of each turn the metrics have."""
        with self._lock:
            return dict(self._counted)

    @property
    def _batches(self) -> int:
        return sum(self._counted.values())

    @property
    def seconds(self) -> float:
        """Since it began."""
        return time.monotonic() - self._began

    @property
    def examples_per_second(self) -> float:
        """Since it began."""
        return self.passes.examples / max(self.seconds, 1e-9)

    def iterated(self, iteration: int, objective: float) -> None:
        """Report an iteration of an algorithm that learns all examples at once: a line of progress."""
        with self._lock:
            self._draft.progress({"batch": iteration, "pass": 0, "objective": objective})
            self._reporter.update(0, {"objective": objective})

    def close(self, window: Window) -> None:
        """Add a window: a line of progress for it and for each of its segments."""
        with self._lock:
            self._close(window)

    def validated(self, found: Validated) -> None:
        """Add the validation metrics after a pass: a line of progress."""
        with self._lock:
            self.validations.passes.append(found)
            place = {"batch": self._batches, "pass": found.pass_number, "validation": True}
            self._write_lines(place, self.validations.by_label(found), {})

    def checkpointed(self, checkpointer: Checkpointer) -> bool:
        """Take a checkpoint where the training takes any; return whether what earlier ones need can be removed."""
        try:
            checkpointer.take_if_any()
        except XpsqlError as error:
            self.note(f"The checkpoint failed: {str(error).rstrip('.')}. The training continues.")
            return False
        return True

    def begin_round(self, before: DriverState, starts: list[int]) -> None:
        """Note that a round begins, what was before it, and the first pass of each round."""
        self.validations.starts, self.before_round = starts, before

    def back_to(self, driver: DriverState | None) -> None:
        """Forget the passes validated after a checkpoint that a training begins again from; None: all of the round."""
        with self._lock:
            self._restore(driver or self.before_round)

    def paused(self, validated: Validated | None, draft: Draft) -> PausedError:
        """Return that the training pauses here, and what judges it.

        Args:
            validated: what the rows held out say; None without.
        """
        if validated is not None:
            found = flat(self.validations.by_label(validated))
        else:
            found = (self.evaluation() if self.windows else None) or self.metrics.as_dict()
        return PausedError(draft.folder, draft.manifest.training, found, self.passes.examples)

    def _restore(self, driver: DriverState | None) -> None:
        self.kept = None if driver is None else driver.kept
        passes = () if driver is None else driver.validated
        self.validations.restore(passes, None if self.kept is None else self.kept.pass_number)

    def evaluation(self) -> Values:
        """Return the metrics over all windows of the first pass; see flat."""
        first = (window for window in self.windows.values() if window.pass_number == 0)
        return flat(metrics_of(first, self._targets))

    def _close(self, window: Window) -> None:
        known = self.windows.get(window.key)
        if known is not None and known.batches >= window.batches:  # measured again after a loss
            return
        if window.missing:
            self._reporter.note(missing_of(window))
        if not window.batches:
            return
        self.windows[window.key] = window
        described = self._described()
        stored = {} if described is None else self._stored(described)
        place = {"pass": window.pass_number, "split": window.split, "window": window.number, "batch": self._batches}
        metrics = metrics_of([window], self._targets)
        self._write_lines(place, metrics, {**stored, "examples_per_second": self.examples_per_second})
        for segment, tallies in window.segments.items():
            self._write_lines({**place, "segment": segment}, LabelMetrics.of(self._targets, [tallies]).by_label(), {})
        shown = {**metrics[self._targets.labels[0]], **stored}
        names = dict.fromkeys((*headlines(), *metric_names(True), *OF_STORE))
        self._window = {name: value for name in names if (value := shown.get(name)) is not None}
        self._tell()

    def _write_lines(self, place: Mapping[str, object], by_label: Mapping[str, Values], more: Mapping[str, object]) -> None:
        """Write a line of progress for each label, with the numbers of no label in the first; lines name labels where there are
        several."""
        for number, (label, values) in enumerate(by_label.items()):
            named = {"label": label} if len(by_label) > 1 else {}
            self._draft.progress({**place, **named, **values, **(more if number == 0 else {})})

    def absorb(self, report: Report) -> None:
        """Add what a remote worker has learned since its last report; report once in a while."""
        with self._lock:
            expected = LabelMetrics(self._targets)
            for tallies in (one for window in report.windows for one in (window.tallies, *window.segments.values())):
                expected.check(tallies)
            for one in report.turns:
                if one.counted:
                    self.passes.take([PassTally(one.pass_number, one.tallies)])
                    self.observed.take(one.observed)
                    self._counted[one.turn] = one.counted
            self._elsewhere[report.worker, report.attempt] = report.spent
            for window in report.windows:
                self._close(window)
            self._tell_at_times()

    def recovered(self, why: str, seconds: float) -> None:
        """Report a recovery: a line of progress, and one in the log."""
        with self._lock:
            self.recoveries += 1
            line = {"recoveries": self.recoveries, "recovery_seconds": seconds}
            self._write_lines(self._reached(), self.passes.latest.by_label(), line)
            self._reporter.note(f"{why} Recovered after {seconds:.1f} s (recovery {self.recoveries} of this training).")

    def held_up(self, workers: Sequence[int], seconds: float) -> None:
        """Report stragglers: how long others have waited for the next step of some workers (ssp, bsp); not more often than
        that."""
        now = time.monotonic()
        with self._lock:
            if now - self._held_up < seconds:
                return
            self._held_up = now
            who = f"Worker {workers[0]} holds" if len(workers) == 1 else f"Workers {', '.join(map(str, workers))} hold"
            self._reporter.note(f"{who} the others up: they have waited {seconds:.0f} s for its next step.")

    def state(self, finished: Mapping[Turn, int], opened: Sequence[WindowPart] = ()) -> DriverState:
        """Return its state for a checkpoint.

        Args:
            finished: how many batches each turn has, of those that are finished.
            opened: the windows that are open, as far as they are known.
        """
        with self._lock:
            validated, passes, tallies = tuple(self.validations.passes), self.passes, self.metrics.tallies()
            lines, windows = (as_lines(finished), as_lines(self._counted)), (tuple(self.windows.values()), tuple(opened))
            done, seconds = passes.examples, self.seconds
            observed = self.observed.tallies()
            return DriverState(*lines, tallies, *windows, done, seconds, validated, self.kept, passes.later, observed)

    def go_on(self, driver: DriverState) -> None:
        """Restore the state of a checkpoint."""
        with self._lock:
            self.passes.go_on(driver.tallies, driver.examples, driver.later)
            self.observed.go_on(driver.observed)
            self.windows = {window.key: window for window in driver.windows}
            self._counted = from_lines(driver.counted)
            self._restore(driver)
            self._began = time.monotonic() - driver.seconds
            self._reporter.go_on(driver.examples)

    def note(self, message: str) -> None:
        """Report something worth knowing that is not an error."""
        with self._lock:
            self._reporter.note(message)

    def write(self, described: Description, weights: Mapping[str, float]) -> None:
        """Write a line of progress and update the reporter.

        Args:
            weights: the range of weights, where it is known.
        """
        self._written = time.monotonic()
        counted = {**self._stored(described), **weights}
        speed = {"examples_per_second": self.examples_per_second}
        recoveries = {"recoveries": self.recoveries} if self.recoveries else {}
        self._write_lines(self._reached(), self.passes.latest.by_label(), {**counted, **speed, **recoveries})
        self._tell()

    def _reached(self) -> dict[str, int]:
        """Return the training's progress."""
        return {"batch": self._batches, "pass": self.passes.newest}

    def _stored(self, described: Description) -> dict[str, float]:
        """Return what shards hold, and timings until now."""
        found, here = stored_in(described), Timings(dict.fromkeys((*READING, *LEARNING), 0.0), *self.compiled.counted)
        spent = summed([here, *(Timings(clocks.seconds) for clocks in self._clocks), *self._elsewhere.values()])
        return {**found, **{name: value + found.get(name, 0) for name, value in spent.items()}}

    def _tell_at_times(self) -> None:
        now = time.monotonic()
        due = not self._evaluated and now - self._written >= PROGRESS_SECONDS
        if due and (described := self._described()) is not None:
            self.write(described, {})
        elif now - self._told >= TELL_SECONDS:
            self._tell()

    def _described(self) -> Description | None:
        """Return what the shards hold; None where it is unknown, as while shards are lost, which the driver notices itself."""
        try:
            return self._describe() if self._describe is not None else None
        except LostError:
            return None

    def _tell(self) -> None:
        """Report the metrics of the last window, or else the metrics until now."""
        self._told = time.monotonic()
        shown: Mapping[str, float] = self._window
        if not shown:
            shown = self.passes.latest.first.some(headlines())
        of_store = {name: value for name, value in shown.items() if name in OF_STORE}
        metrics = {name: value for name, value in shown.items() if name not in OF_STORE}
        self._reporter.update(self.passes.examples, {**told_of(self.passes.newest, metrics), **of_store})


def stored_in(described: Description) -> dict[str, float]:
    """Return what shards hold as ML.TRAINING_INFO names it; the range of weights where they know it."""
    counted = {"features": described.rows, "memory_bytes": described.memory_bytes, "violations": 0, **described.reports}
    if described.low > described.high:
        return counted
    return {**counted, **weight_range(described.low, described.high)}
