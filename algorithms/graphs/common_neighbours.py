"""Common neighbours: vertices that are likely to be neighbours, since many of their neighbours are the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...platform.options import Part, option
from ...platform.ps import _native
from ...platform.registry import EDGES
from ..base import Algorithm, Layout
from ..vertex_program import ALL, Combine, EdgeGroups, GraphRound, PairProgram, Values
from .graph import paired_by
from .swing import cut, turned


@dataclass(frozen=True)
class CommonNeighboursOptions:
    by: str = option(
        "count",
        "the score: how many there are, their share of all neighbours of both, or a sum in which those of many count less",
        choices=("count", "jaccard", "adamic_adar"),
    )
    most: int = option(500, "neighbours of a vertex that are paired; of more, so many by hash", minimum=2, maximum=1_000_000)
    top: int = option(100, "related vertices of each vertex, the best ones", minimum=1, maximum=10_000)


def common_neighbours(options: CommonNeighboursOptions, layout: Layout) -> Algorithm:
    """Find vertices that have neighbours in common, such as people who know the same people.

    With N(i) the neighbours of a vertex, whatever the direction of edges, the score of vertices i and j is |N(i) and N(j)|; by
    `jaccard` that divided by |N(i) or N(j)|; by `adamic_adar` the sum over N(i) and N(j) of 1 / ln |N(u)|.

    ML.RELATED lists pairs, from a query with vertices in a column `node`. Every worker has all edges.

    Source: Liben-Nowell and Kleinberg, "The Link Prediction Problem for Social Networks", CIKM 2003; Adamic and Adar, "Friends
    and neighbors on the Web", Social Networks 2003.
    """

    def along(groups: EdgeGroups, messages: Any, at: GraphRound) -> Values:
        keys, degrees = messages.view(np.uint64), np.diff(groups.offsets)
        paired = cut(groups.offsets, groups.others, keys, options.most)
        factors = np.ones(len(keys))
        if options.by == "adamic_adar":
            factors = 1 / np.log(np.maximum(degrees, 2))
        item, other, score = _native.common_neighbours(
            *turned(*paired),
            *paired,
            factors,
            degrees if options.by == "jaccard" else None,
            keys,
            options.top,
            groups.part,
            groups.parts,
        )
        return np.concatenate([messages[item], messages[other], score])

    return paired_by(PairProgram(Combine(along, ALL), both=True, simple=True))


COMMON_NEIGHBOURS = Part("common_neighbours", CommonNeighboursOptions, common_neighbours, EDGES)
