"""A worker's edges: read once, numbered by their vertices, and grouped by where they lead."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ....algorithms.graphs.limbs import NODE
from ....algorithms.vertex_program import ALL, SPLITS, EdgeGroups, GraphRound, PairProgram, Values, VertexProgram
from ...engines.repeats import expanded
from ...errors import DataError
from ...input.numbers import floats, shown
from ...input.prefetch import Ahead
from ...input.source import row_of
from ...input.splits import CHUNK_ROWS
from ...ps import _native
from ...ps.keys import feature_keys
from ...ps.messages import Keys
from ..prepared import Prepared

AHEAD_CHUNKS = 2
MOST_WEIGHT = 2.0**31
LIMBS = 3

Ends = NDArray[np.int32]
Weights = NDArray[np.float32]
AnyProgram = VertexProgram | PairProgram
RowWords = Callable[[int], str]
"""Names a row of a table that was read."""


class EdgesRead(NamedTuple):
    """Some edges as they are read: the keys of their ends, their weights, how many rows had a NULL end, and whether they are
    this worker's to count."""

    source: Keys
    target: Keys
    weights: Weights | None
    dropped: int
    own: bool


class PartOfGraph(NamedTuple):
    """What a worker has of a graph.

    Attributes:
        worker: its number.
        keys: uint64[m], of the vertices that its edges touch.
        out: int64[m, 1], how many edges leave each; int64[m, 3], the sum of their weights, see sum_weights.
        degree: int64[m], how many edges of each `combine` sees here.
        edges: it counts so many; dropped: and so many rows with a NULL end.
    """

    worker: int
    keys: Keys
    out: Values
    degree: Values
    edges: int
    dropped: int


class GraphPart:
    """The edges of one worker.

    Args:
        program: what is computed.
        number, parts: which of the workers this is.
        weighted: edges have weights.
        read: gives the edges; with one worker, or where a program takes splits, only those that are its own to count.

    Attributes:
        found: what it has.
        groups: its edges.
    """

    def __init__(self, program: AnyProgram, number: int, parts: int, weighted: bool, read: Iterable[EdgesRead]) -> None:
        self.program, self._number, self._parts = program, number, parts
        self._whole = program.combine.reads == ALL
        numbering = _native.Numbering()
        self._edges: list[tuple[Ends, Ends, Weights | None]] = []
        counted: list[tuple[Ends, Weights | None]] = []
        edges = dropped = 0
        for some in read:
            source, target = numbering.number(some.source), numbering.number(some.target)
            self._edges.append((source, target, some.weights))
            if some.own:
                counted.append((source, some.weights))
                edges, dropped = edges + len(source), dropped + some.dropped
        keys = numbering.keys()
        out = outgoing(counted, len(keys), weighted)
        del counted
        alone = reads_own(program, parts)
        self._owned = None if alone else keys % np.uint64(parts) == np.uint64(number)
        self.groups = self._grouped(len(keys), weighted)
        degree = np.diff(self.groups.offsets)
        if self._owned is not None:
            degree[~self._owned] = 0
        self.found = PartOfGraph(number, keys, out, degree, edges, dropped)

    def along(self, messages: NDArray[np.int64] | NDArray[np.float64], at: GraphRound) -> Values:
        """Return the inboxes of its vertices in a round, of what these send."""
        inbox = self.program.combine.along(self.groups, messages, at)
        if self._owned is not None and not self._whole:
            inbox[~self._owned] = self.program.combine.nothing
        return inbox

    def _grouped(self, vertices: int, weighted: bool) -> EdgeGroups:
        """Return the edges by the vertex that they lead to, those of other workers left out; their memory is given up."""
        counts, both = np.zeros(vertices, np.int64), self.program.both
        for source, target, _ in self._edges:
            for ends in (target, source)[: 1 + both]:
                _native.count_ends(ends, counts)
        if self._owned is not None and not self._whole:
            counts[~self._owned] = 0
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
        others = np.empty(offsets[-1], np.int32)
        weights = np.empty(offsets[-1], np.float32) if weighted and self.program.takes_weights else None
        following = offsets[:-1].copy()
        while self._edges:
            source, target, own = self._edges.pop()
            for ends, from_ in ((target, source), (source, target))[: 1 + both]:
                _native.place_edges(*self._kept(ends, from_, None if weights is None else own), following, others, weights)
        if self.program.simple:
            offsets, others = _native.tidy(offsets, others, loops=False)
            weights = None
        return EdgeGroups(offsets, others, weights, self._number, self._parts)

    def _kept(self, ends: Ends, others: Ends, weights: Weights | None) -> tuple[Ends, Ends, Weights | None]:
        if self._owned is None or self._whole:
            return ends, others, weights
        kept = self._owned[ends]
        return ends[kept], others[kept], None if weights is None else weights[kept]


def part_of(prepared: Prepared, number: int, parts: int) -> GraphPart:
    """Return the edges of a worker of a training.

    Raises:
        DataError: a weight is none; names the row.
    """
    program = program_of(prepared)
    with Ahead(lambda: read_edges(prepared, number, parts), AHEAD_CHUNKS) as ahead:
        return GraphPart(program, number, parts, prepared.columns.weight is not None, ahead)


def read_edges(prepared: Prepared, worker: int, workers: int) -> Generator[EdgesRead, None, None]:
    """Read the edges that a worker needs: those of its splits, or all."""
    scan, columns = prepared.scan, prepared.columns
    assert columns.ends is not None
    alone = reads_own(program_of(prepared), workers)
    for number, split in enumerate(prepared.splits):
        own, row = number % workers == worker, 0
        if alone and not own:
            continue
        for table in scan.read(split, columns.learned, CHUNK_ROWS):
            table = expanded(table)
            source, target = (table.column(name) for name in columns.ends)
            weights = None if columns.weight is None else floats(table.column(columns.weight))
            there = both_there(source, target)
            if weights is not None:
                check_weights(weights, columns.weight or "", there, partial(row_of, scan, split, row))
            row += table.num_rows
            yield edges_of(source, target, weights, there, own)


def reads_own(program: AnyProgram, workers: int) -> bool:
    """Return whether a worker reads only edges that are its own to count."""
    return program.combine.reads == SPLITS or workers == 1


def outgoing(edges: Sequence[tuple[Ends, Weights | None]], vertices: int, weighted: bool) -> Values:
    """Return how many edges leave each vertex, or the sums of their weights; see PartOfGraph."""
    out = np.zeros((vertices, LIMBS if weighted else 1), np.int64)
    for source, weights in edges:
        if weights is None:
            _native.count_ends(source, out.reshape(-1))
        else:
            _native.sum_weights(source, weights, out)
    return out


def program_of(prepared: Prepared) -> AnyProgram:
    """Return the vertex program of a training."""
    program = prepared.recipe.algorithm.program
    assert program is not None  # whose strategy this is
    return program


def both_there(source: pa.ChunkedArray, target: pa.ChunkedArray) -> NDArray[np.bool_] | None:
    """Return which edges have both ends; None: all."""
    if not source.null_count and not target.null_count:
        return None
    there: NDArray[np.bool_] = source.is_valid().to_numpy() & target.is_valid().to_numpy()
    return there


def edges_of(
    source: pa.ChunkedArray, target: pa.ChunkedArray, weights: Weights | None, there: NDArray[np.bool_] | None, own: bool
) -> EdgesRead:
    """Return the edges that have both ends."""
    ends = [feature_keys(NODE, one.combine_chunks()) for one in (source, target)]
    if there is None:
        return EdgesRead(ends[0], ends[1], weights, 0, own)
    weights = None if weights is None else weights[there]
    return EdgesRead(ends[0][there], ends[1][there], weights, int(np.count_nonzero(~there)), own)


def check_weights(weights: Weights, name: str, there: NDArray[np.bool_] | None, where: RowWords) -> None:
    """Refuse weights that are below 0, too large, or none.

    Raises:
        DataError: names the column and the row.
    """
    wrong = ~((weights >= 0) & (weights < MOST_WEIGHT))
    if there is not None:
        wrong &= there
    if wrong.any():
        at = int(wrong.argmax())
        raise DataError(
            f"WEIGHT {name} of an edge must be a number from 0 to 2^31; {where(at)} has {shown(weights[at])}. "
            "Correct it in the query, or leave such edges out."
        )
