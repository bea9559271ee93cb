"""Swing: items that the same pairs of users took."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...platform.options import Part, option
from ...platform.ps import _native
from ...platform.registry import EDGES
from ..base import Algorithm, Layout
from ..vertex_program import ALL, Combine, EdgeGroups, GraphRound, PairProgram, Values
from .graph import paired_by

MIX = np.uint64(0x9E3779B97F4A7C15)
SHIFT = np.uint64(29)


@dataclass(frozen=True)
class SwingOptions:
    alpha: float = option(0.0, "added to the number of items that two users have in common", minimum=0)
    beta: float = option(5.0, "added to the number of items of a user", minimum=0)
    gamma: float = option(-0.3, "a user weighs (beta + items)^gamma", minimum=-5, maximum=5)
    most: int = option(
        500, "users of an item and items of a user that are compared; of more, so many by hash", minimum=2, maximum=1_000_000
    )
    top: int = option(100, "related items of each item, the best ones", minimum=1, maximum=10_000)


def swing(options: SwingOptions, layout: Layout) -> Algorithm:
    """Find related items: those that users took who have little else in common. SOURCE names users, TARGET items.

    The score of items i and j sums over the pairs of users u, v that took both, I(u) the items of a user, and |.| a number,

        w(u) w(v) / (alpha + |I(u) and I(v)|), with w(u) = (beta + |I(u)|)^gamma

    ML.RELATED lists pairs, from a query with items in a column `node`. Every worker has all edges.

    Source: Yang et al., "Large Scale Product Graph Construction for Recommendation in E-commerce", 2020, section 4.1.
    """

    def along(groups: EdgeGroups, messages: Any, at: GraphRound) -> Values:
        keys: NDArray[np.uint64] = messages.view(np.uint64)
        offsets, users = cut(*_native.tidy(groups.offsets, groups.others, loops=True), keys, options.most)
        by_user = turned(offsets, users)
        user_offsets, items = cut(*by_user, keys, options.most)
        offsets, users = turned(user_offsets, items)
        factors = (options.beta + np.diff(by_user[0])) ** options.gamma
        found = _native.swing(
            offsets, users, user_offsets, items, factors, keys, options.alpha, options.top, groups.part, groups.parts
        )
        item, other, score = found
        return np.concatenate([messages[item], messages[other], score])

    return paired_by(PairProgram(Combine(along, ALL)))


def turned(offsets: Values, others: NDArray[np.int32]) -> tuple[Values, NDArray[np.int32]]:
    """Return the same edges by their other ends, ascending in both."""
    vertices = len(offsets) - 1
    counts = np.bincount(others, minlength=vertices)
    found = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
    ends = np.repeat(np.arange(vertices, dtype=np.int32), np.diff(offsets))
    return found, ends[np.argsort(others, kind="stable")]


def cut(offsets: Values, others: NDArray[np.int32], keys: NDArray[np.uint64], most: int) -> tuple[Values, NDArray[np.int32]]:
    """Return groups of at most so many members, of larger ones those of the least hashes with the group's key."""
    sizes = np.diff(offsets)
    if sizes.max(initial=0) <= most:
        return offsets, others
    group = np.repeat(np.arange(len(sizes)), sizes)
    hashed = (keys[others] ^ (keys[group] >> SHIFT)) * MIX
    order = np.lexsort((hashed, group))
    kept = np.sort(order[np.arange(len(others)) - np.repeat(offsets[:-1], sizes) < most])
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(np.minimum(sizes, most))]), others[kept]


SWING = Part("swing", SwingOptions, swing, EDGES)
