"""The conformance suite of vertex programs, for ours and for plugins; `xpsql.testing` offers it.

Each check raises AssertionError with what differs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..algorithms.base import Algorithm, Graph, Layout
from ..algorithms.vertex_program import FIXED, KEY, WHOLE, Values, VertexProgram, Vertices
from ..platform.options import Part
from ..platform.training.graphs.kept import RoundDone
from ..platform.training.graphs.learn import Told, WholeGraph, WorkersOfGraph, beginning, change, rounds_of, whole_of
from ..platform.training.graphs.part import EdgesRead, GraphPart, reads_own

SEED, VERTICES, EDGES = 7, 60, 400
Keys = NDArray[np.uint64]


class GraphTrial:
    """A vertex program on a small graph with loops, repeated edges, hubs and vertices that no edge leaves.

    Args:
        part: the algorithm's part.
        options: its options; None: its defaults.
    """

    def __init__(self, part: Part[Any, Algorithm], options: Any = None) -> None:
        learns = part.make(part.options() if options is None else options, Layout()).learns
        assert isinstance(learns, Graph), "a vertex program is an algorithm that learns = Graph(...); see computed_by"
        assert part.takes.edges, "the part of a vertex program takes EDGES"
        assert isinstance(learns.program, VertexProgram), "the suite is for programs of vertices, not of pairs"
        self.program = learns.program
        random = np.random.default_rng(SEED)
        keys = random.integers(0, 2**64, VERTICES, np.uint64)
        ends = np.minimum(random.zipf(1.5, (EDGES, 2)) - 1, VERTICES - 1)
        self.source, self.target = keys[ends[:, 0]], keys[ends[:, 1]]
        self.weights = random.integers(0, 9, EDGES).astype(np.float32) / 4 if self.program.takes_weights else None

    def workers(self, count: int, order: Sequence[int] | NDArray[np.intp]) -> WorkersOfGraph:
        """Return so many workers that share the edges, read in an order."""
        pieces = np.array_split(np.asarray(order), 7)
        own = reads_own(self.program, count)
        parts = []
        for number in range(count):
            read = [
                EdgesRead(self.source[at], self.target[at], None if self.weights is None else self.weights[at], 0, mine)
                for split, at in enumerate(pieces)
                if (mine := split % count == number) or not own
            ]
            parts.append(GraphPart(self.program, number, count, self.weights is not None, read))

        def along(messages: Sequence[Any], at: Any) -> list[Values]:
            return [part.along(sent, at) for part, sent in zip(parts, messages, strict=True)]

        return WorkersOfGraph([part.found for part in parts], along)

    def computed(self, count: int, order: Sequence[int] | NDArray[np.intp]) -> tuple[Vertices, Values, int]:
        """Return the vertices, their values after the last round, and the number of rounds."""
        workers = self.workers(count, order)
        graph = whole_of(workers.parts, self.weights is not None)
        begins = beginning(self.program, graph.vertices, lambda: None)
        told = Told(lambda number, changed: None, lambda done: None)
        rounds, values = rounds_of(self.program, workers, graph, RoundDone(0, begins), SEED, told)
        return graph.vertices, values, rounds

    def usual(self) -> tuple[Vertices, Values, int]:
        """Return what one worker computes."""
        return self.computed(1, range(EDGES))

    def graph(self) -> tuple[WorkersOfGraph, WholeGraph]:
        """Return one worker and its graph."""
        workers = self.workers(1, range(EDGES))
        return workers, whole_of(workers.parts, self.weights is not None)


def values_are_numbers_of_their_kind(trial: GraphTrial) -> None:
    """Values are int64, of kind WHOLE from 0 on, of kind FIXED between 0 and 1, of kind KEY keys of vertices."""
    vertices, values, _ = trial.usual()
    kind = trial.program.kind
    if kind not in (WHOLE, FIXED, KEY):
        raise AssertionError(f"kind is {kind!r}, and must be WHOLE, FIXED or KEY")
    if kind != KEY and values.min() < 0:
        raise AssertionError(f"a value is {values.min()}, below 0")
    if kind == FIXED and values.max() > 1 << 60:
        raise AssertionError("a value is above 1")
    if kind == KEY and not np.isin(values, vertices.keys.view(np.int64)).all():
        raise AssertionError("a value is no key of a vertex")


def the_order_of_edges_does_not_matter(trial: GraphTrial) -> None:
    """Edges that are read in another order give the same bits."""
    order = np.random.default_rng(SEED).permutation(EDGES)
    assert_same(trial.usual(), trial.computed(1, order), "edges in another order")


def the_number_of_workers_does_not_matter(trial: GraphTrial) -> None:
    """Two, three and five workers give the same bits as one."""
    for count in (2, 3, 5):
        assert_same(trial.usual(), trial.computed(count, range(EDGES)), f"{count} workers")


def it_ends(trial: GraphTrial) -> None:
    """It halts before `rounds` where these are many, and a further round changes little then."""
    _, _, rounds = trial.usual()
    if trial.program.rounds > 1000 and rounds >= 1000:
        raise AssertionError(f"it has not ended after {rounds} rounds")


def vertices_are_treated_alone(trial: GraphTrial) -> None:
    """`message` and `update` of vertices in another order give the same of each."""
    program, (_, graph) = trial.program, trial.graph()
    vertices = graph.vertices
    order = np.random.default_rng(SEED).permutation(len(vertices.keys))
    turned = Vertices(vertices.keys[order], vertices.out[order], vertices.degree[order], vertices.weighted)
    values, inbox = program.initial(vertices), np.arange(len(order))
    for what, usual, other in (
        ("initial", values, program.initial(turned)),
        ("message", program.message(values, vertices), program.message(values[order], turned)),
        ("update", program.update(values, inbox, vertices), program.update(values[order], inbox[order], turned)),
    ):
        if not np.array_equal(np.asarray(usual)[order], other):
            raise AssertionError(f"{what} depends on other vertices than its own, or on their order")


def it_changes_no_argument(trial: GraphTrial) -> None:
    """`message`, `update` and `halt` leave their arguments as they are."""
    program, (_, graph) = trial.program, trial.graph()
    values = program.initial(graph.vertices)
    kept, inbox = values.copy(), np.arange(len(values))
    program.message(values, graph.vertices)
    after = program.update(values, inbox, graph.vertices)
    program.halt(values, after)
    change(program, values, after)
    if not np.array_equal(values, kept) or not np.array_equal(inbox, np.arange(len(values))):
        raise AssertionError("it writes into an array that it was given")


def inboxes_are_merged_in_any_order(trial: GraphTrial) -> None:
    """`merge` is associative and commutative, and `nothing` changes no inbox."""
    combine, random = trial.program.combine, np.random.default_rng(SEED)
    a, b, c = random.integers(0, 1 << 40, (3, 50))
    merge: Callable[..., Any] = combine.merge
    if not np.array_equal(merge(merge(a, b), c), merge(a, merge(c, b))):
        raise AssertionError("merge is not associative and commutative")
    if not np.array_equal(merge(a, np.int64(combine.nothing)), a):
        raise AssertionError(f"an inbox that is merged with nothing, {combine.nothing}, is another one")


def assert_same(usual: tuple[Vertices, Values, int], other: tuple[Vertices, Values, int], what: str) -> None:
    for name in ("keys", "out", "degree"):
        if not np.array_equal(getattr(usual[0], name), getattr(other[0], name)):
            raise AssertionError(f"{name} of vertices differ with {what}")
    if not np.array_equal(usual[1], other[1]):
        raise AssertionError(f"values differ with {what}")


GRAPH_CHECKS: tuple[Callable[[GraphTrial], None], ...] = (
    values_are_numbers_of_their_kind,
    the_order_of_edges_does_not_matter,
    the_number_of_workers_does_not_matter,
    it_ends,
    vertices_are_treated_alone,
    it_changes_no_argument,
    inboxes_are_merged_in_any_order,
)
