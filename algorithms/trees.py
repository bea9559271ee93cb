"""A tree over items: how an algorithm finds items by descending it, and how many negative nodes are drawn.

Nodes are numbered as in a heap: the root is 0, the children of c are 2c + 1 and 2c + 2; level h has 2^h nodes, and items are
leaves of the last level, the depth.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import jax

    from .inputs import Inputs
    from .learns import Parameters


class TreeSearch(NamedTuple):
    """How an algorithm finds items in a tree.

    Attributes:
        item: the categorical slot of the item, whose rows are the leaves.
        category: the slot whose items stand together in the first tree; None: any order.
        history: the sequence of items by which alike ones stand together there, in place of categories; None: not so.
        table: of the nodes' vectors.
        negatives: nodes of a level, at most, that are negatives for a batch's items.
        beam: nodes of a level that are kept.
        rebuild: how many more rounds follow the first one, each with a tree by the vectors of items that were best before.
        asked: (parameters, inputs) -> what scores need of the user, arrays whose first axis is the example.
        scores: (parameters, asked, vectors of nodes float32[batch, m, dim], or float32[m, dim] of the same for all) ->
            float32[batch, m].
        query_slots: names of the slots of the user.
    """

    item: str
    category: str | None
    history: str | None
    table: str
    negatives: int
    beam: int
    rebuild: int
    asked: Callable[[Parameters, Inputs], Any]
    scores: Callable[[Parameters, Any, jax.Array], jax.Array]
    query_slots: tuple[str, ...]


def drawn_nodes(depth: int, negatives: int) -> list[int]:
    """Return how many nodes of each level, from 1 to the depth, are drawn for a batch: all of them where they are few."""
    return [min(2**level, negatives) for level in range(1, depth + 1)]
