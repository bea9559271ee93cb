"""What an algorithm says of itself beside what it computes: its intercept, how much it learns from at once, what it takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from .blocks.events import States
    from .inputs import Inputs
    from .layers.history_search import HistorySearch
    from .learns import Parameters


class Intercept(NamedTuple):
    """A feature that every example has, slot "(intercept)".

    That of a new model can begin at the baseline of the loss: in the first table, whose rows then have an element for each
    label, or in `tables`.

    Attributes:
        at_mean: it begins at the mean label of the input where the statement does not say; else at 0, but where labels of one
            kind are rare.
        tables: names of the tables in which it begins, each with the element of one label; empty: the first table.
    """

    at_mean: bool = False
    tables: tuple[str, ...] = ()


class Sizing(NamedTuple):
    """How many examples an algorithm learns from where the statement does not say.

    Attributes:
        large_batches: a long log may be learned in larger batches without loss of accuracy.
        least_batch: examples per update of a short log, at least.
        least_examples: examples learned from a short log, at least, in as many passes.
    """

    large_batches: bool = False
    least_batch: int = 1
    least_examples: int = 0


class Traits(NamedTuple):
    """What an algorithm takes and how its functions see it.

    Attributes:
        logarithmic: it takes continuous slots on a logarithmic scale, sign(x) log(1 + |x|), standardised there.
        compact: its functions see slots by way of the look-ups and poolings of `algorithms/layers` alone, so that what
            neighbouring examples have in common may come once, see `Inputs.group`.
        statistics: of rows that its functions see as `Inputs.statistics`: count, updates, shows, clicks, and age, the examples
            since the first with the feature; of the first table.
        user: names of slots that layers of their own see, which are computed once for the rows of a request that share them.
        edges: its examples are edges, whose ends SOURCE and TARGET name.
        search: chooses what a step sees of histories that are searched, once rows are pulled; None: none are.
        states: what scores need of the events before a moment, which a service keeps for the next request; None: nothing.
        later: names of slots that an example itself does not see, but what comes after it, so that they may tell the label.
        outside: the package that its functions call where JAX cannot look, so that no graph can be made of them; "" for none.
    """

    logarithmic: bool = False
    compact: bool = False
    statistics: tuple[str, ...] = ()
    outside: str = ""
    edges: bool = False
    user: tuple[str, ...] = ()
    search: HistorySearch | None = None
    states: Callable[[Parameters, Inputs], States] | None = None
    later: tuple[str, ...] = ()


class Match(NamedTuple):
    """Two outputs whose inner product is the score of an item for a query; each is a function of its own slots.

    Attributes:
        query, item: names of the outputs.
        query_slots, item_slots: names of the slots that each is a function of.
    """

    query: str
    item: str
    query_slots: tuple[str, ...]
    item_slots: tuple[str, ...]
