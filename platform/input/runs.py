"""Runs: neighbouring rows that agree in some slots, as the impressions of one user or request do in a sorted log. They are
found in a chunk, and a batch holds once, for a group of examples, what a run has in common."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...algorithms.blocks.bags import BagRows
from ...algorithms.blocks.base import BatchWindow
from ...algorithms.blocks.histories import HISTORIES, Histories, History
from ...algorithms.chunk import Bag, Chunk, RowRuns
from ..ps._native import mark_bag_changes, mark_changes
from ..ps.compiled.aligned import empty, filled
from ..ps.compiled.ladder import Ladder

Codes = NDArray[np.int32]
Floats = NDArray[np.float32]
FEWEST = 16
WINDOWS, WIDTH = 16, 64
LEAST_ROWS = WINDOWS * WIDTH
MOST_RUNS = 1 / 3
LEAST_SAVED = 0.25
NEARLY = 0.9


class Agreeing(NamedTuple):
    """The slots in which neighbouring rows agree.

    Attributes:
        lines: for each line of `Chunk.scalar`, whether rows agree in it.
        bags: the numbers of the slots among `Chunk.bags`.
        histories: the numbers of the groups of sequences among the chunk's HISTORIES.
    """

    lines: tuple[bool, ...]
    bags: tuple[int, ...]
    histories: tuple[int, ...]


class RunFinder:
    """Finds the runs of chunks, by few choices of slots, so that few programs are compiled: the chosen slots are kept for the
    next chunks as long as they do nearly as well as the best ones. Where rows are learned from, see RunsOfSplit.
    """

    def __init__(self) -> None:
        self._known: list[Agreeing] = []

    def found(self, chunk: Chunk) -> Chunk:
        """Return a chunk with its runs, where they save at least a quarter of the work on its features; runs that it was read
        with stay."""
        return chunk if chunk.runs is not None else with_runs(chunk, self._chosen(chunk))

    def _chosen(self, chunk: Chunk) -> Agreeing | None:
        best = best_of(chunk)
        if best is None or best in self._known:
            return best
        neighbours = Neighbours.of(chunk)
        for known in self._known:
            if neighbours.saved(known) >= NEARLY * neighbours.saved(best):
                return known
        self._known.append(best)
        return best


class RunsOfSplit:
    """Finds the runs of the chunks of one split, which several threads may encode.

    The first chunk that has no runs yet chooses for all of them: sums are added in the same order whichever worker learns the
    split, on however many threads, and at whichever batch a worker resumes it.
    """

    def __init__(self) -> None:
        self._lock = threading.Condition()
        self._over = 0  # so many chunks need the choice no more, or have made it
        self._chosen = False
        self._slots: Agreeing | None = None

    def found(self, chunk: Chunk, number: int) -> Chunk:
        """Return a chunk with its runs; see RunFinder.

        Args:
            number: of the chunk in its split, from 0. It waits for those before it, until each has chosen or is over.
        """
        if chunk.runs is not None:
            return chunk
        if not self._chosen:
            with self._lock:
                self._lock.wait_for(lambda: self._over >= number)
                if not self._chosen:
                    self._slots, self._chosen = best_of(chunk), True
            self.over(number)
        return with_runs(chunk, self._slots)

    def over(self, number: int) -> None:
        """Let the chunk after this one choose, where none has."""
        with self._lock:
            self._lock.wait_for(lambda: self._chosen or self._over >= number)
            self._over = max(self._over, number + 1)
            self._lock.notify_all()


def with_runs(chunk: Chunk, slots: Agreeing | None) -> Chunk:
    """Return a chunk with the runs in which slots agree, where they are long enough."""
    if slots is None:
        return chunk
    starts = starts_of(chunk, slots)
    return chunk._replace(runs=RowRuns(starts, *slots)) if 2 * len(starts) <= len(chunk.weight) else chunk


class Neighbours(NamedTuple):
    """How often slots change between neighbouring rows of a sample: slots of `Chunk.scalar`, then of `Chunk.bags`, then the
    groups of its HISTORIES.

    Attributes:
        changed: bool[slots, n], whether a row differs from the one before it.
        shares: float64[slots], of the features of an example.
        num_lines: how many slots are lines.
        num_bags: how many are bags.
    """

    changed: NDArray[np.bool_]
    shares: NDArray[np.float64]
    num_lines: int
    num_bags: int

    @classmethod
    def of(cls, chunk: Chunk) -> Neighbours:
        """Look at windows of rows, spread over a chunk evenly."""
        rows = len(chunk.weight)
        begins = np.linspace(0, rows - WIDTH, WINDOWS).astype(np.int64)
        at = (begins[:, None] + np.arange(1, WIDTH)).reshape(-1)
        lines = chunk.scalar[:, at] != chunk.scalar[:, at - 1]
        arrays: list[Bag | Histories] = [*chunk.bags, *chunk.block(HISTORIES)]
        marks = np.zeros((len(arrays), WINDOWS, WIDTH), np.uint8)
        for array, of_array in zip(arrays, marks, strict=True):
            for begin, window in zip(begins, of_array, strict=True):
                mark_array_changes(array, array.offsets[begin : begin + WIDTH + 1], window)
        changed = marks[:, :, 1:].reshape(len(arrays), len(at)) > 0
        features = np.array([1.0] * len(lines) + [array.codes.size / rows for array in arrays])
        shares = features / max(features.sum(), 1)
        return cls(np.concatenate([lines, changed]), shares, len(lines), len(chunk.bags))

    def best(self) -> Agreeing | None:
        """Return the slots that save most; None where even the steadiest one changes too often."""
        order = np.argsort(self.changed.mean(axis=1), kind="stable")
        rates = np.logical_or.accumulate(self.changed[order], axis=0).mean(axis=1)
        few = int(np.count_nonzero(rates <= MOST_RUNS))
        if not few:
            return None
        saved = np.cumsum(self.shares[order]) * (1 - rates)
        chosen = np.zeros(len(order), np.bool_)
        chosen[order[: int(np.argmax(saved[:few])) + 1]] = True
        lines, bags, histories = np.split(chosen, [self.num_lines, self.num_lines + self.num_bags])
        return Agreeing(tuple(lines.tolist()), *(tuple(np.flatnonzero(which).tolist()) for which in (bags, histories)))

    def saved(self, slots: Agreeing) -> float:
        """Return the share of an example's features that is saved if some slots are held once for each run."""
        bags, groups = range(self.num_bags), range(len(self.shares) - self.num_lines - self.num_bags)
        of_arrays = *(bag in slots.bags for bag in bags), *(group in slots.histories for group in groups)
        chosen = np.array([*slots.lines, *of_arrays], np.bool_)
        rate = self.changed[chosen].any(axis=0).mean()
        return float(self.shares[chosen].sum() * (1 - rate)) if rate <= MOST_RUNS else 0.0


def best_of(chunk: Chunk) -> Agreeing | None:
    """Return the slots of a chunk that save most; None where they save too little, or the chunk is short."""
    if len(chunk.weight) < LEAST_ROWS:
        return None
    neighbours = Neighbours.of(chunk)
    best = neighbours.best()
    return best if best is not None and neighbours.saved(best) >= LEAST_SAVED else None


def of_one_request(chunk: Chunk) -> Chunk:
    """Return a chunk with its rows as one run where all of them have the same histories, as the candidates of a request have;
    whichever other slots they agree in, so that one program serves all such requests."""
    histories = tuple(range(len(chunk.block(HISTORIES))))
    slots = Agreeing((False,) * len(chunk.scalar), (), histories)
    if len(chunk.weight) < 2 or not histories or len(starts := starts_of(chunk, slots)) > 1:
        return chunk
    return chunk._replace(runs=RowRuns(starts, *slots))


def starts_of(chunk: Chunk, slots: Agreeing) -> NDArray[np.int64]:
    """Return the rows that differ from their predecessor in one of some slots, int64[runs], and the first row."""
    changed = np.zeros(len(chunk.weight), np.uint8)
    changed[:1] = 1
    for codes, chosen in zip(chunk.scalar, slots.lines, strict=True):
        if chosen:
            mark_changes(codes, changed)
    arrays: list[Bag | Histories] = [chunk.bags[number] for number in slots.bags]
    for array in (*arrays, *(chunk.block(HISTORIES)[number] for number in slots.histories)):
        mark_array_changes(array, array.offsets, changed)
    return np.flatnonzero(changed)


def mark_array_changes(array: Bag | Histories, offsets: NDArray[np.int64], changed: NDArray[np.uint8]) -> None:
    """Mark the rows whose values differ from those of their predecessor.

    Args:
        offsets: of the rows, see Bag.
    """
    if isinstance(array, Bag):
        mark_bag_changes(array.codes, array.weights, offsets, changed)
        return
    for codes in array.codes:
        mark_bag_changes(codes, codes.view(np.float32), offsets, changed)  # elements have no weights: codes are compared twice


class Values(NamedTuple):
    """The values of multi-valued slots: codes, owners (examples or groups), slot numbers and weights, [k] each."""

    codes: Codes
    owners: Codes
    slots: Codes
    weights: Floats

    def followed_by(self, others: Values, first: int) -> Values:
        """Return these values followed by other owners' values, which are numbered from `first` on."""
        theirs = others._replace(owners=others.owners + np.int32(first))
        return Values(*(np.concatenate(arrays) for arrays in zip(self, theirs, strict=True)))


class BatchGroup(NamedTuple):
    """The groups of a batch, padded, as `algorithms.lines.Group` has them, and the common lines.

    Attributes:
        scalar: int32[k, groups], the rows of common lines; m where absent, and in groups without examples.
        owner: int32[batch]; padded examples are in the last group.
        values: of multi-valued and weighted slots, each with its group.
        lines: of all lines, whether each is a common one.
        bags: the common multi-valued slots.
        histories: the groups of sequences that are common, whose HISTORIES have groups in the place of examples.
    """

    scalar: Codes
    owner: Codes
    values: BagRows
    lines: tuple[bool, ...]
    bags: tuple[int, ...]
    histories: tuple[int, ...]


class CommonCodes(NamedTuple):
    """The codes that the groups of examples start:stop of a chunk have in common.

    Attributes:
        owner: int32[examples], the group of each.
        scalar: int32[k, groups].
        values: of multi-valued slots.
        histories: an entry for each group.
        sizes, clicks: uint32[groups], how many examples a group has, and how many of them have a positive label.
    """

    owner: Codes
    scalar: Codes
    values: Values
    histories: tuple[Histories, ...]
    sizes: NDArray[np.uint32]
    clicks: NDArray[np.uint32]

    @classmethod
    def cut(cls, chunk: Chunk, runs: RowRuns, start: int, stop: int, positive: NDArray[np.bool_]) -> CommonCodes:
        """Take them from a chunk; a run may begin before the first example, and end after the last.

        Args:
            positive: bool[stop - start], whether the label is.
        """
        low, high = np.searchsorted(runs.starts, start, side="right"), np.searchsorted(runs.starts, stop)
        begins = np.append(np.int64(start), runs.starts[low:high])
        sizes = np.diff(np.append(begins, stop))
        entries = np.arange(low - 1, high) if runs.held else begins
        bags = [chunk.bags[number].take(entries) for number in runs.bags]
        return cls(
            np.repeat(np.arange(len(begins), dtype=np.int32), sizes),
            chunk.scalar[np.flatnonzero(runs.lines)[:, None], begins],
            bag_values(bags, runs.bags, 0, len(begins)),
            tuple(chunk.block(HISTORIES)[number].take(entries) for number in runs.histories),
            sizes.astype(np.uint32),
            np.add.reduceat(positive, begins - start, dtype=np.uint32),
        )

    def empty_index(self, size: int) -> Codes:
        """Return an array for the rows of common lines, int32[k, size]."""
        return empty((len(self.scalar), size), np.int32)

    @property
    def arrays(self) -> tuple[Codes, Codes]:
        """The codes of values, then of the elements of histories, and the group of each."""
        values, found = self.values, [one.features(0, len(self.sizes)) for one in self.histories]
        codes = np.concatenate([values.codes, *(codes for codes, _ in found)])
        return codes, np.concatenate([values.owners, *(groups for _, groups in found)])

    def histories_of(self, index: Codes, group: BatchGroup, window: BatchWindow) -> list[History]:
        """Return histories, an entry for each group, and one after them.

        Args:
            index: the rows of `arrays`.
            window: of the batch.
        """
        found, at = [], len(self.values.codes)
        of_groups = window._replace(start=0, stop=len(self.sizes), size=group.scalar.shape[1])
        for one in self.histories:
            rows = index[at : (at := at + one.codes.size)]
            owner: Any = group.owner
            found.append(one.cut(of_groups, rows)._replace(owner=owner))
        return found

    def padded(self, scalar: Codes, index: Codes, runs: RowRuns, batch_size: int, absent: int, ladder: Ladder) -> BatchGroup:
        """Return the groups of a batch.

        Args:
            scalar: int32[k, size], whose first columns are the rows of common lines.
            index: the rows of `arrays`.
            absent: the row for absent features.
            ladder: of values.
        """
        index = index[: len(self.values.codes)]
        scalar[:, len(self.sizes) :] = absent
        size = ladder.size(len(index)) if runs.bags else 0
        return BatchGroup(
            scalar=scalar,
            owner=filled(self.owner, batch_size, scalar.shape[1] - 1),
            values=bag_rows(index, self.values, size, absent),
            lines=runs.lines,
            bags=runs.bags,
            histories=runs.histories,
        )


def padded_groups(groups: int) -> int:
    """Return the padded number of groups, with at least one that has no examples: 2, 16, 32, 64, ..."""
    size = 2 if groups == 1 else FEWEST
    while size <= groups:
        size *= 2
    return size


NO_VALUES = Values(np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0, np.float32))


def bag_values(bags: Sequence[Bag], numbers: Sequence[int], start: int, stop: int) -> Values:
    """Return the values of some multi-valued slots, given by their numbers, in rows start:stop."""
    parts = [NO_VALUES]
    for slot, bag in zip(numbers, bags, strict=True):
        low, high = bag.offsets[start], bag.offsets[stop]
        owners = np.repeat(np.arange(stop - start, dtype=np.int32), np.diff(bag.offsets[start : stop + 1]))
        parts.append(Values(bag.codes[low:high], owners, np.full(high - low, slot, np.int32), bag.weights[low:high]))
    return Values(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))


def bag_rows(index: Codes, values: Values, size: int, absent: int) -> BagRows:
    """Return values with padding.

    Args:
        index: int32[k], their rows.
        absent: the row of padding.
    """
    others = (filled(array, size) for array in (values.owners, values.slots, values.weights))
    own: Any = filled(index, size, absent), *others
    return BagRows(*own)
