"""Windows of a training's evaluation: batches that are scored before they are learned from, measured together.

After every m batches of a pass the next n are a window: batch b is in window b div (m + n) where b mod (m + n) >= m. What a
window has of each split is measured by itself, since another worker may learn from the next one. A training step's predictions
are made before its update, so a window costs no scoring of its own. After a task is lost, a batch that some shard has already
applied is left out of its window: rows that have learned from it predict it too well.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .differences import DIFFERENCES
from .evaluate import Evaluate
from .labels import Values
from .metrics import LabelMetrics, Tally, Targets

if TYPE_CHECKING:
    from ...input.batches import Batch

Floats = NDArray[np.float32]
MOST_SEGMENTS = 100


class Window(NamedTuple):
    """What a window measured; a replay measures it again under the same key.

    Attributes:
        pass_number, split, number: which window it is.
        batches: how many it has.
        missing: how many batches it lacks: some shard had applied them before they were measured.
        tallies: of its examples, of each label; groups end with a window.
        segments: value of the BY column -> its tallies; the segments with the most examples, at most 100.
    """

    pass_number: int
    split: int
    number: int
    batches: int
    missing: int
    tallies: tuple[Tally, ...]
    segments: dict[str, tuple[Tally, ...]]

    @property
    def key(self) -> Key:
        """What makes it the same window."""
        return self.pass_number, self.split, self.number


class WindowPart(NamedTuple):
    """The part of a window that was seen so far, batch by batch.

    Attributes:
        pass_number, split, number: which window it is.
        batches: how many there are.
        labels, predictions: float32[num_labels, examples]; of classes predictions are float32[k, examples].
        groups: int64[examples]; empty without GROUP.
        segments: uint32[examples, width], of each example the characters of the BY column's value, as NumPy holds strings;
            uint32[0, 1] without.
    """

    pass_number: int
    split: int
    number: int
    batches: int
    labels: Floats
    predictions: Floats
    groups: NDArray[np.int64]
    segments: NDArray[np.uint32]

    @property
    def key(self) -> Key:
        """The pass, split and number of the window."""
        return self.pass_number, self.split, self.number


Key = tuple[int, int, int]
Learned = Callable[["Batch", Floats], None]


class Schedule(NamedTuple):
    """The batches that are in windows.

    Attributes:
        evaluate: how often, and how long.
        before: of each split, how many batches the splits before it have; about so many where a filter is evaluated on the way.
        batches: of all splits.
    """

    evaluate: Evaluate
    before: Sequence[int]
    batches: int

    @property
    def period(self) -> int:
        """From one window to the next, in batches."""
        return self.evaluate.every + self.evaluate.on

    @property
    def windows(self) -> int:
        """How many there are in a pass, at most."""
        return self.batches // self.period + (self.batches % self.period > self.evaluate.every)

    def window_of(self, batch: Batch) -> Key | None:
        """Return the key of the window that a batch is in, None where it is in none."""
        number, place = divmod(self._number(batch), self.period)
        return (batch.id.pass_number, batch.id.split, number) if place >= self.evaluate.every else None

    def passed(self, batch: Batch) -> int:
        """Return how many batches of its split a batch's window has, up to this one."""
        at = self._number(batch)
        begin = max(at // self.period * self.period + self.evaluate.every, self.before[batch.id.split])
        return at - begin + 1

    def closes(self, batch: Batch) -> bool:
        """Return whether a batch is the last one of its window."""
        return (self._number(batch) + 1) % self.period == 0

    def _number(self, batch: Batch) -> int:
        """Return a batch's number in its pass."""
        return self.before[batch.id.split] + batch.id.batch


def schedule_of(evaluate: Evaluate | None, batches: Sequence[int]) -> Schedule | None:
    """Return which batches are in windows, of splits that have so many batches."""
    if evaluate is None:
        return None
    sums = list(itertools.accumulate(batches, initial=0))
    return Schedule(evaluate, tuple(sums[:-1]), sums[-1])


def without_windows(schedule: Schedule) -> str:
    """Return the note about an evaluation that reaches no window."""
    return (
        f"EVALUATE EVERY {schedule.evaluate.every} BATCHES reaches no window: a pass has {schedule.batches} batches. "
        "Evaluate more often."
    )


class Collector:
    """Collects the windows of one worker, which learns from one split after the other.

    Args:
        schedule: None: there are no windows.
        targets: what predictions are measured against.
        learned: called with every batch and its predictions.
        closed: called with every window.
        begun: windows that were open when a training was interrupted; the worker that continues one takes it out.
    """

    def __init__(
        self,
        schedule: Schedule | None,
        targets: Targets,
        learned: Learned,
        closed: Callable[[Window], None],
        begun: dict[Key, WindowPart],
    ) -> None:
        self._schedule = schedule
        self._targets = targets
        self._learned = learned
        self._closed = closed
        self._begun = begun
        self._key: Key | None = None
        self._open: list[WindowPart] = []
        self._passed = 0

    def learned(self, batch: Batch, predictions: Floats) -> None:
        """Take in a batch that was learned from, with the predictions made before.

        A window is reported before its last batch, so that whoever knows the batch knows the window.
        """
        if self._schedule is not None:
            self._collect(batch, predictions, self._schedule)
        self._learned(batch, predictions)

    def _collect(self, batch: Batch, predictions: Floats, schedule: Schedule) -> None:
        key = schedule.window_of(batch)
        if key != self._key:
            self.finish()
            self._key = key
            begun = None if key is None else self._begun.pop(key, None)
            self._open = [] if key is None else [begun or nothing(key, len(batch.label), len(predictions))]
        if key is None:
            return
        if batch.fresh:
            self._open.append(seen(key, batch, predictions))
        self._passed = schedule.passed(batch)
        if schedule.closes(batch):
            self.finish()

    def finish(self) -> None:
        """Close the window that is open, if one is."""
        if self._open:
            self._closed(measured(joined(self._open), self._passed, self._targets))
        self._key, self._open = None, []

    def open(self) -> WindowPart | None:
        """Return the window that is open, if one is."""
        return joined(self._open) if self._open else None


def nothing(key: Key, num_labels: int, num_outputs: int) -> WindowPart:
    """Return the empty state of a window."""
    labels, predictions = (np.empty((lines, 0), np.float32) for lines in (num_labels, num_outputs))
    return WindowPart(*key, 0, labels, predictions, np.empty(0, np.int64), np.empty((0, 1), np.uint32))


def seen(key: Key, batch: Batch, predictions: Floats) -> WindowPart:
    """Return a batch as a part of its window."""
    facets = batch.facets
    groups = np.empty(0, np.int64) if facets is None else facets.groups.view(np.int64)
    texts = np.empty(0, "<U1") if facets is None else facets.segments.astype("<U")
    segments = (
        np.ascontiguousarray(texts).view(np.uint32).reshape(len(texts), -1) if len(texts) else np.empty((0, 1), np.uint32)
    )
    return WindowPart(*key, 1, batch.label[:, : batch.examples], predictions, groups, segments)


def joined(parts: Sequence[WindowPart]) -> WindowPart:
    """Join the parts of one window, in order."""
    labels, predictions, groups = (
        np.concatenate([getattr(one, name) for one in parts], axis=-1) for name in ("labels", "predictions", "groups")
    )
    width = max(one.segments.shape[1] for one in parts)
    segments = np.concatenate([np.pad(one.segments, ((0, 0), (0, width - one.segments.shape[1]))) for one in parts])
    return WindowPart(*parts[0].key, sum(one.batches for one in parts), labels, predictions, groups, segments)


def measured(window: WindowPart, batches: int, targets: Targets) -> Window:
    """Measure a window.

    Args:
        batches: how many it should have.
    """
    segments = by_segment(window, targets) if len(window.segments) else {}
    return Window(*window.key, window.batches, batches - window.batches, tallies_of(window, None, targets), segments)


def by_segment(window: WindowPart, targets: Targets) -> dict[str, tuple[Tally, ...]]:
    """Return the tallies of the segments with the most examples."""
    texts = window.segments.view(f"<U{window.segments.shape[1]}")[:, 0]
    names, codes, counts = np.unique(texts, return_inverse=True, return_counts=True)
    chosen = np.argsort(-counts, kind="stable")[:MOST_SEGMENTS]
    return {str(names[i]): tallies_of(window, codes == i, targets) for i in chosen}


def tallies_of(window: WindowPart, some: NDArray[np.bool_] | None, targets: Targets) -> tuple[Tally, ...]:
    """Return the tallies of each label, of some of a window's examples; None: of all."""
    labels, predictions, groups = window.labels, window.predictions, window.groups
    if some is not None:
        labels, predictions, groups = labels[:, some], predictions[:, some], groups[some] if len(groups) else groups
    metrics = LabelMetrics(targets)
    metrics.add(labels, predictions, groups)
    return metrics.tallies()


def metrics_of(windows: Iterable[Window], targets: Targets) -> dict[str, Values]:
    """Return the metrics of each label over windows."""
    return LabelMetrics.of(targets, (window.tallies for window in windows)).by_label()


def missing_of(window: Window) -> str:
    """Return the note about a window that lacks batches."""
    return (
        f"Window {window.number} of pass {window.pass_number + 1}, split {window.split}, lacks {window.missing} of "
        f"{window.batches + window.missing} batches: a shard had learned from them when they were scored, so they are left out."
    )


def by_value(windows: Iterable[Window]) -> dict[str, tuple[float, float, float]]:
    """Return by value of the BY column its rows, and the sums of their first labels and predictions, over windows."""
    found: dict[str, tuple[float, float, float]] = {}
    for window in windows:
        for value, tallies in window.segments.items():
            rows, labels, predictions = tallies[0].states[DIFFERENCES.name][0][:3].tolist()
            before = found.get(value, (0.0, 0.0, 0.0))
            found[value] = before[0] + rows, before[1] + labels, before[2] + predictions
    return found
