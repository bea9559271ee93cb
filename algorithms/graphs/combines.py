"""What vertex programs combine along edges, in native code; equal to the bit for any number of threads and workers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...platform.ps import _native
from ..vertex_program import ALL, TARGETS, Combine, EdgeGroups, GraphRound, Values

LARGEST = np.iinfo(np.int64).max


def sums(groups: EdgeGroups, messages: Any, at: GraphRound) -> Values:
    """Return the sums of what comes, each times its edge's weight and rounded where messages are float64."""
    if messages.dtype == np.float64 and groups.weights is not None:
        return _native.weighted_sums_along(groups.offsets, groups.others, groups.weights, messages)
    return _native.sums_along(groups.offsets, groups.others, messages)


def least(groups: EdgeGroups, messages: Any, at: GraphRound) -> Values:
    return _native.extremes_along(groups.offsets, groups.others, messages, most=False)


def most(groups: EdgeGroups, messages: Any, at: GraphRound) -> Values:
    return _native.extremes_along(groups.offsets, groups.others, messages, most=True)


def joined(groups: EdgeGroups, messages: Any, at: GraphRound) -> Values:
    return _native.joined(groups.offsets, groups.others, messages)


def h_index(groups: EdgeGroups, messages: Any, at: GraphRound) -> Values:
    return _native.h_index(groups.offsets, groups.others, messages)


def most_frequent(groups: EdgeGroups, messages: Any, at: GraphRound) -> Values:
    return _native.most_frequent(groups.offsets, groups.others, messages, (at.seed << 32) + at.number)


def triangles(groups: EdgeGroups, messages: Any, at: GraphRound) -> Values:
    return _native.triangles(groups.offsets, groups.others, groups.part, groups.parts)


SUM = Combine(sums)
LEAST = Combine(least, merge=np.minimum, nothing=LARGEST)
MOST = Combine(most, merge=np.maximum, nothing=-LARGEST - 1)
JOINED = Combine(joined, merge=np.minimum, nothing=LARGEST)
"""The least message of all vertices that edges connect a vertex with, over any number of them."""
H_INDEX = Combine(h_index, TARGETS)
"""The most that so many neighbours send or more, at most what the vertex sends itself."""
MOST_FREQUENT = Combine(most_frequent, TARGETS)
"""What most neighbours send; of equally frequent messages the vertex's own, else one by chance."""
TRIANGLES = Combine(triangles, ALL)
"""How many triangles a vertex is in."""


def gathered(function: Callable[[NDArray[Any], Values], Values]) -> Combine:
    """Return what calls a function of numpy with all that comes to each vertex.

    Args:
        function: (messages along all edges to some vertices, those of a vertex together; where each vertex's begin, int64[k +
            1]) -> int64[k]. It must not depend on the order of a vertex's messages.
    """

    def along(groups: EdgeGroups, messages: Any, at: GraphRound) -> Values:
        return function(messages[groups.others], groups.offsets)

    return Combine(along, TARGETS)
