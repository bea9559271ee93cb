"""PageRank: how often a surfer who follows edges at random comes to each vertex."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...platform.errors import OptionError, Subject
from ...platform.options import Part, option
from ...platform.ps.keys import feature_keys
from ...platform.registry import EDGES
from ..base import Algorithm, Layout
from ..vertex_program import FIXED, ONE, Numbers, Values, VertexProgram, Vertices
from .combines import SUM
from .graph import computed_by
from .limbs import NODE

RESTART = Subject("USING", "pagerank", "restart")


@dataclass(frozen=True)
class PagerankOptions:
    damping: float = option(
        0.85, "chance that the surfer follows an edge; else it begins anew", minimum=0, maximum=1, open_maximum=True
    )
    tolerance: float = option(1e-6, "the last round is the one that changes ranks by less, all together", minimum=0, maximum=2)
    rounds: int = option(100, "the most rounds", minimum=1, maximum=100_000)
    restart: tuple[str, ...] = option((), "vertices that the surfer begins at, as texts; by default at any")


def pagerank(options: PagerankOptions, layout: Layout) -> Algorithm:
    """Rank the vertices of a graph by the edges that lead to them, each as much as the rank and the weight it comes from.

    With n vertices, w(u, v) the weight of an edge, D the rank of the vertices that no edge leaves, and t the share of a vertex
    in where the surfer begins, 1 / n without `restart`:

        rank(v) = (1 - damping) t(v) + damping (sum over edges of rank(u) w(u, v) / sum of w(u, .) + D t(v))

    Ranks sum to 1. An edge from a vertex to itself counts, and one that occurs again counts again. CONTINUE begins at the ranks
    of its version.

    Source: Page, Brin, Motwani and Winograd, "The PageRank Citation Ranking", Stanford 1999.
    """

    def teleport(vertices: Vertices) -> Numbers:
        n = len(vertices.keys)
        if not options.restart:
            return np.full(n, 1 / n)
        begins = np.isin(vertices.keys, feature_keys(NODE, pa.array(options.restart)))
        if not begins.any():
            message = f"{RESTART} names {', '.join(options.restart)}, and no edge has such an end. Name vertices of the graph."
            raise OptionError(message, subject=RESTART)
        return begins / np.count_nonzero(begins)

    def initial(vertices: Vertices) -> Values:
        return whole(ONE * teleport(vertices))

    def message(ranks: Values, vertices: Vertices) -> Any:
        out = vertices.out
        if vertices.weighted:
            return np.divide(ranks, out, out=np.zeros(len(out)), where=out > 0)
        edges = np.maximum(out, 1).astype(np.int64)
        return np.where(out > 0, (ranks + edges // 2) // edges, 0)

    def update(ranks: Values, inbox: Values, vertices: Vertices) -> Values:
        share, lost = teleport(vertices), float(ranks[vertices.out == 0].sum())
        return whole((1 - options.damping) * ONE * share + options.damping * (inbox + lost * share))

    def halt(before: Values, after: Values) -> bool:
        return int(np.abs(after - before).sum()) < options.tolerance * ONE

    def continues(before: Values, known: NDArray[np.bool_], initial: Values) -> Values:
        """Begin at the ranks before, made to sum to 1 with those of new vertices."""
        ranks = np.where(known, before, initial)
        return whole(ranks * (ONE / max(float(ranks.sum()), 1.0)))

    program = VertexProgram("rank", FIXED, SUM, initial, update, message, halt, options.rounds, continues=continues)
    return computed_by(replace(program, takes_weights=True))


def whole(values: NDArray[Any]) -> Values:
    rounded: Values = np.rint(values).astype(np.int64)
    return rounded


PAGERANK = Part("pagerank", PagerankOptions, pagerank, EDGES)
