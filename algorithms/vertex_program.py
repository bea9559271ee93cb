"""The contract of vertex programs: every vertex of a graph has a value, and rounds of messages along its edges change it.

A round is: `message` makes of each vertex's value what it sends, `combine` makes of what comes to a vertex along its edges one
number, its inbox, and `update` makes the new value of the two. A program ends after the round that `halt` says, or after
`rounds`.

Values are int64[n], a number for each vertex, and whatever is combined is a whole number, so that nothing depends on the order
of edges, or on how many workers have them: numbers between 0 and 1 are kept in units of 2^-60 (`FIXED`). A worker has some of
the edges. `message` and `update` run where all vertices are, once a round, and must treat each vertex by itself: by its value,
its key and its degree, and by sums and extremes over all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.int64]
Numbers = NDArray[np.float64]

ONE = 1 << 60
"""1 of what is FIXED."""
WHOLE, FIXED, KEY = "whole", "fixed", "key"
"""What values are: numbers; numbers in units of 2^-60; keys of vertices."""
SPLITS, TARGETS, ALL = "splits", "targets", "all"
"""Which edges a worker has: those of some splits; all of some vertices; all of the graph, of which it works on a part."""


class Vertices(NamedTuple):
    """All vertices of a graph, ascending by key; arrays of one length.

    Attributes:
        keys: uint64[n], xxhash64 of the slot and the vertex.
        out: float64[n], how much leaves each: the sum of weights of the edges from it, without WEIGHT their number.
        degree: int64[n], how many edges `combine` sees of each: those that lead to it, or all, see VertexProgram.both.
        weighted: edges have weights.
    """

    keys: NDArray[np.uint64]
    out: Numbers
    degree: Values
    weighted: bool


class EdgeGroups(NamedTuple):
    """The edges that a worker has, by the vertex that they lead to, among the m vertices that they touch.

    Attributes:
        offsets: int64[m + 1], where the edges of each vertex begin.
        others: int32[edges], the vertices at their other ends.
        weights: float32[edges]; None where edges have none.
        part, parts: which of the workers this is.
    """

    offsets: Values
    others: NDArray[np.int32]
    weights: NDArray[np.float32] | None
    part: int
    parts: int


class GraphRound(NamedTuple):
    """A round: its number, from 0, -1 where pairs are found, and the training's seed."""

    number: int
    seed: int


class Combine(NamedTuple):
    """How what comes to a vertex becomes one number.

    Attributes:
        along: (groups, messages of its vertices, int64[m] or, to be multiplied by weights, float64[m], round) -> int64[m].
        reads: which edges a worker has: SPLITS, where inboxes of edges apart can be merged; TARGETS or ALL, where not.
        merge: makes one inbox of those of all workers; associative and commutative.
        nothing: the inbox of a vertex to which nothing comes, which changes no other that it is merged with.
    """

    along: Callable[[EdgeGroups, Any, GraphRound], Values]
    reads: str = SPLITS
    merge: np.ufunc = np.add
    nothing: int = 0


def itself(values: Values, vertices: Vertices) -> Values:
    """Send the value."""
    return values


def unchanged(before: Values, after: Values) -> bool:
    """Return whether a round has changed nothing."""
    return bool(np.array_equal(before, after))


@dataclass(frozen=True)
class VertexProgram:
    """A vertex program.

    Attributes:
        value: what a vertex's value is called: ML.PREDICT gives predicted_<value>.
        kind: WHOLE, FIXED or KEY.
        combine: what comes to a vertex.
        initial: vertices -> the values that it begins with.
        update: (values, inboxes, vertices) -> the new values.
        message: (values, vertices) -> what each vertex sends, as `combine.along` takes it.
        halt: (values before the round, after it) -> whether it was the last one.
        rounds: the most that there are.
        both: edges lead both ways.
        simple: edges from a vertex to itself are left out, and those that occur again.
        continues: (values of the continued version, 0 for new vertices; which are known; initial values) -> what CONTINUE
            begins with; None: it begins as TRAIN does.
        takes_weights: WEIGHT has an effect.
        settles: where one worker has all edges, a second round changes nothing.
    """

    value: str
    kind: str
    combine: Combine
    initial: Callable[[Vertices], Values]
    update: Callable[[Values, Values, Vertices], Values]
    message: Callable[[Values, Vertices], Any] = itself
    halt: Callable[[Values, Values], bool] = unchanged
    rounds: int = 1
    both: bool = False
    simple: bool = False
    continues: Callable[[Values, NDArray[np.bool_], Values], Values] | None = None
    takes_weights: bool = False
    settles: bool = False


@dataclass(frozen=True)
class PairProgram:
    """A program that finds pairs of vertices in one round, of which rows are scores.

    Attributes:
        combine: its `along` gets keys of vertices as messages, and returns int64[3 k]: the keys of k vertices, those of the
            vertices that they are paired with, and scores in units of 2^-40; no worker has a pair of another one.
        both, simple, takes_weights: see VertexProgram.
    """

    combine: Combine
    both: bool = False
    simple: bool = False
    takes_weights: bool = False
    rounds: ClassVar[int] = 1


PAIR_ONE = 1 << 40
"""1 of a score of pairs."""
