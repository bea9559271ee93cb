"""Runs: neighbouring rows that agree in some slots, as the impressions of one user or request do in a sorted log."""

from __future__ import annotations

import threading
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ....algorithms.blocks.histories import HISTORIES, Histories
from ....algorithms.chunk import Bag, Chunk, RowRuns
from ...ps._native import mark_bag_changes, mark_changes

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


def of_one_request(chunk: Chunk, lines: tuple[bool, ...] = (), bags: tuple[int, ...] = ()) -> Chunk:
    """Return a chunk with its rows as one run of the same histories where all of them have these, as the candidates of a
    request have; whichever other slots they agree in, so that one program serves all such requests.

    Args:
        lines, bags: slots in which they have to agree, too; see Agreeing.
    """
    histories, none = tuple(range(len(chunk.block(HISTORIES)))), (False,) * len(chunk.scalar)
    if len(chunk.weight) < 2 or not histories or len(starts := starts_of(chunk, Agreeing(lines or none, bags, histories))) > 1:
        return chunk
    return chunk._replace(runs=RowRuns(starts, none, (), histories))


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
