"""How far a shard has come in each turn, so that no batch is lost and none is applied twice.

A turn is a split in a pass. Its watermark is how many of its batches are applied: a push is applied if it brings the next
one, acknowledged and ignored if its batch is there already, and refused if one between is missing. Every batch goes to every
shard, empty if need be, so a watermark speaks for all keys of its run of slices.

A shard has one run: its own slices. After a restore on another number of shards it has one for each old shard that it took
slices, dense parameters or statistics from, and the runs may be at different batches; a push is then applied to the runs that
lack it, until all are at the same batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from ..errors import TrainingError
from .keys import slices
from .messages import BatchId, Floats
from .moments import no_moments

if TYPE_CHECKING:
    from .messages import Push


class Turn(NamedTuple):
    """A split in a pass, by their numbers from 0."""

    pass_number: int
    split: int


Applied = Mapping[Turn, int]
"""How many batches of each turn are applied; 0 where a turn is not named."""
Lines = NDArray[np.int64]
"""The same as it travels, int64[n, 3]: pass, split, batches."""


PASS_END = -1
"""In place of a split: the turn whose one batch says that a pass's end has been, with what it brings."""


class GapError(TrainingError):
    """A push whose batch is not the one after the last that was applied."""


class EpochError(TrainingError):
    """A push of a worker whose driver is dead and has been replaced."""


class RunRecord(NamedTuple):
    """A run as plain data, which travels and is kept in checkpoints.

    Attributes:
        first_slice, stop_slice: the slices whose keys it speaks for, [first, stop).
        dense: the dense parameters that it speaks for.
        head: whether it speaks for the shard's counts of examples and its statistics of continuous slots.
        turns: batches applied.
    """

    first_slice: int
    stop_slice: int
    dense: tuple[str, ...]
    head: bool
    turns: Lines

    @property
    def applied(self) -> dict[Turn, int]:
        """The watermarks by turn."""
        return from_lines(self.turns)


class Run:
    """Slices, dense parameters and counts that share one watermark; attributes as of Entry, and `batches`, how many it has of
    all turns."""

    def __init__(self, slices: range, dense: Iterable[str], head: bool, applied: Applied) -> None:
        self.slices = slices
        self.dense = tuple(dense)
        self.head = head
        self.applied: dict[Turn, int] = dict(applied)
        self.batches = sum(batches for turn, batches in self.applied.items() if turn.split != PASS_END)

    def entry(self) -> RunRecord:
        """Return the run as plain data."""
        turns = as_lines(dict(sorted(self.applied.items())))
        return RunRecord(self.slices.start, self.slices.stop, self.dense, self.head, turns)


class Watermarks:
    """The watermarks of one shard. Not thread-safe: its shard applies one request at a time.

    Args:
        runs: one of them is the head.
        epoch: of the driver; pushes of earlier ones are refused.
    """

    def __init__(self, runs: Sequence[Run], epoch: int) -> None:
        self.epoch = epoch
        self._runs = tuple(runs)

    @classmethod
    def fresh(cls, slices: range, dense: Iterable[str], epoch: int) -> Self:
        """Return the watermarks of a shard that has applied nothing."""
        return cls([Run(slices, dense, True, {})], epoch)

    @classmethod
    def from_entries(cls, entries: Iterable[RunRecord], epoch: int) -> Self:
        """Return the watermarks of entries."""
        runs = [Run(range(one.first_slice, one.stop_slice), one.dense, one.head, one.applied) for one in entries]
        return cls(runs, epoch)

    def entries(self) -> tuple[RunRecord, ...]:
        """Return the runs as plain data."""
        return tuple(run.entry() for run in self._runs)

    def due(self, batch: BatchId) -> Sequence[Run]:
        """Return the runs for which a batch is the next; none where all have it.

        Raises:
            GapError: a run lacks a batch before this one.
            EpochError: it is of an earlier epoch.
        """
        if batch.epoch < self.epoch:
            raise EpochError(f"Expected pushes of epoch {self.epoch}, got one of epoch {batch.epoch}: its driver is replaced.")
        turn, number, due = Turn(batch.pass_number, batch.split), batch.batch, []
        for run in self._runs:
            applied = run.applied.get(turn, 0)
            if number > applied:
                raise GapError(
                    f"Expected batch {applied} of pass {turn.pass_number}, split {turn.split}, got batch {number}. The batches "
                    "between are missing; report this with the log of the training."
                )
            if number == applied:
                due.append(run)
        return due

    def part(self, push: Push, due: Sequence[Run]) -> Push:
        """Return the push as far as it concerns the runs that it is due for."""
        return push if len(due) == len(self._runs) else restricted(push, due)

    def advance(self, batch: BatchId, due: Sequence[Run]) -> None:
        """Note that a batch is applied to the runs that it was due for; runs at the same batch are merged."""
        turn = Turn(batch.pass_number, batch.split)
        for run in due:
            run.applied[turn] = batch.batch + 1
            run.batches += 1
        self._merge()

    def unended(self, pass_number: int) -> Sequence[Run]:
        """Return the runs that a pass's end has not been for."""
        return [run for run in self._runs if Turn(pass_number, PASS_END) not in run.applied]

    def end(self, pass_number: int, runs: Sequence[Run]) -> None:
        """Note that a pass's end has been for some runs."""
        for run in runs:
            run.applied[Turn(pass_number, PASS_END)] = 1
        self._merge()

    def _merge(self) -> None:
        if len(self._runs) > 1 and all(run.applied == self._runs[0].applied for run in self._runs):
            bounds = [bound for run in self._runs if run.slices for bound in (run.slices.start, run.slices.stop)]
            whole = range(min(bounds, default=0), max(bounds, default=0))
            dense = [name for run in self._runs for name in run.dense]
            self._runs = (Run(whole, dense, True, self._runs[0].applied),)


def restricted(push: Push, runs: Sequence[Run]) -> Push:
    """Return a push without the keys, dense parameters, counts and statistics that belong to other runs."""
    slice_of = slices(push.touched.keys)
    mine = np.zeros(len(slice_of), np.bool_)
    for run in runs:
        mine |= (slice_of >= run.slices.start) & (slice_of < run.slices.stop)
    head, names = any(run.head for run in runs), {name for run in runs for name in run.dense}
    touched = push.touched.only(mine)
    return push._replace(
        touched=touched if head else touched._replace(examples=0, positives=0),
        updates={name: counts[mine] for name, counts in push.updates.items()},
        gradients=chosen(push.gradients, mine),
        weights=chosen(push.weights, mine),
        dense={name: gradient for name, gradient in push.dense.items() if name in names},
        moments=push.moments if head else no_moments(len(push.moments.count)),
    )


def chosen(by_table: Mapping[str, Floats], mine: NDArray[np.bool_]) -> dict[str, Floats]:
    """Return the rows of some keys of each table's float32[size, dim], in the same size, zeros after the last."""
    parts = {name: np.zeros_like(rows) for name, rows in by_table.items()}
    for name, rows in by_table.items():
        parts[name][: np.count_nonzero(mine)] = rows[: len(mine)][mine]
    return parts


def as_lines(batches: Mapping[Turn, int]) -> Lines:
    """Return batches by turn as they travel."""
    return np.array([(*turn, number) for turn, number in batches.items()], np.int64).reshape(-1, 3)


def from_lines(lines: Lines) -> dict[Turn, int]:
    """Return what as_lines was given."""
    return {Turn(number, split): batches for number, split, batches in lines.tolist()}


def lowest(entries: Iterable[RunRecord]) -> dict[Turn, int]:
    """Return how many batches of each turn every run has applied; turns that one has nothing of are left out."""
    least: dict[Turn, int] | None = None
    for entry in entries:
        applied = entry.applied
        least = applied if least is None else {turn: min(n, applied[turn]) for turn, n in least.items() if turn in applied}
    return least or {}


def highest(entries: Iterable[RunRecord]) -> dict[Turn, int]:
    """Return how many batches of each turn the run has that has the most."""
    most: dict[Turn, int] = {}
    for entry in entries:
        most |= {turn: max(n, most.get(turn, 0)) for turn, n in entry.applied.items()}
    return most


def turns_of(num_splits: int, passes: int, first: int = 0) -> list[Turn]:
    """Return all turns of some passes, in order of learning, which are numbered from `first`."""
    return [Turn(first + number, split) for number in range(passes) for split in range(num_splits)]
