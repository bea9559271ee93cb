"""What an algorithm sees: the slots of a model, and the batches that its functions see."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from .blocks.base import NO_BLOCKS, Blocks, InBatch, InLayout, SlotBlock, SlotsOf, replaced

if TYPE_CHECKING:
    import jax

    from .blocks.bags import BagRows
    from .shared_inputs import CommonLines, Group

L = TypeVar("L", bound=InLayout)
B = TypeVar("B", bound=InBatch)


class SideSlots(NamedTuple):
    """The slots whose values have vectors with ids, and the network that each vector goes through.

    Attributes:
        name: of the vectors.
        elements: of each; 0 until they have been read.
        slots: categorical and multi-valued slots and sequences.
        hidden: units of the network's hidden layers.
    """

    name: str
    elements: int
    slots: tuple[str, ...]
    hidden: tuple[int, ...]


class Layout(NamedTuple):
    """The slots of a model, in the order in which Inputs holds them.

    Attributes:
        scalar: the categorical slots, one line of `Inputs.scalar` each, before the intercept's.
        bags: the multi-valued and weighted slots, which `BagRows.slot` counts.
        continuous: what operators offer of features, and the continuous slots: the first columns of `Inputs.dense`.
        vectors: the slots that are dense vectors, with their elements, the columns after them.
        labels: the columns to predict.
        blocks: the other slots, by their blocks; see `block`.
        classes: of the label, where it is one of several classes; else 0.
        sides: the vectors with ids that values of slots have.
        offered: how many of `continuous` operators offer.
    """

    scalar: tuple[str, ...] = ()
    bags: tuple[str, ...] = ()
    continuous: tuple[str, ...] = ()
    vectors: tuple[tuple[str, int], ...] = ()
    labels: tuple[str, ...] = ("label",)
    blocks: tuple[SlotsOf, ...] = ()
    classes: int = 0
    sides: tuple[SideSlots, ...] = ()
    offered: int = 0

    @property
    def active(self) -> int:
        """How many inputs of about 1 an example has: its slots, of a dense vector each element; not what operators offer."""
        named = len(self.slots) - len(self.vectors) - self.offered
        return max(1, named + sum(elements for _, elements in self.vectors))

    @property
    def outputs(self) -> int:
        """How many scores an example has: one for each label, or class."""
        return self.classes or len(self.labels)

    @property
    def slots(self) -> tuple[str, ...]:
        """All slots, in this order."""
        vectors = (name for name, _ in self.vectors)
        others = (name for _, records in self.blocks for record in records for name in record.slots)
        return (*self.scalar, *self.bags, *self.continuous, *vectors, *others)

    def block(self, block: SlotBlock[L, Any, Any]) -> tuple[L, ...]:
        """Return what is said of the slots of a block."""
        return next((records for own, records in self.blocks if own is block), ())

    def having(self, block: SlotBlock[L, Any, Any], records: Iterable[L]) -> Layout:
        """Return the layout with other slots of a block."""
        own, first = tuple(records), [one.block for one in self.blocks]
        place = first.index(block) if block in first else len(first)
        more = (SlotsOf(block, own),) if own else ()
        return self._replace(blocks=(*self.blocks[:place], *more, *self.blocks[place + 1 :]))


class SideVectors(NamedTuple):
    """The vectors with ids, of one kind, that the features of a batch have; in scoring what their network makes of them.

    Attributes:
        values: float32[k, elements]; each distinct one once, after two lines of zeros: for rows whose slots have no vectors,
            and for features that lack theirs. None where shards run the network.
        of_row: int32[n]; the line of each pulled row.
        outputs: float32[n, dim]; of each pulled row, in place of both.
    """

    values: jax.Array | None
    of_row: jax.Array | None
    outputs: jax.Array | None = None


class Inputs(NamedTuple):
    """One encoded batch as the jitted step sees it. Indices point into the pulled rows [n, dim]; absent features and padded
    examples point at an all-zero row.

    Attributes:
        scalar: int32[num_scalar, batch]; one line per categorical slot, the intercept's last if the model has one.
        bags: the values of multi-valued and weighted slots.
        dense: float32[batch, num_dense]; what operators offer of features, standardised continuous slots (0 where absent),
            then elements of dense vectors.
        dense_index: int32[num_dense]; the row of each of them.
        label: float32[batch, num_labels]; of a label with classes the number of one.
        weight: float32[batch]; example weight, 0 on padding.
        random: uint32[2], where the algorithm asks for it: what is random in an update is a function of it; None in scoring.
        sampled: int32[num_sampled]; the rows of features drawn at random, where the algorithm asks for them; None in scoring.
        blocks: the other slots, by the names of their blocks; see `block`.
        statistics: float32[n, k]; of each row what the algorithm's `statistics` name, 0 where it is absent; None where it names
            none. No gradient flows into it.
        group: of an algorithm that is `compact`, what neighbouring examples have in common: their values of some multi-valued
            slots are there, and `scalar` and HISTORIES hold what is common once; None where they have too little, and of
            other algorithms.
        sides: one for each of `Layout.sides`; algorithms see them as further slots.
        expected: float32[n], where an algorithm has items drawn at random for each batch (see RandomItems): the last n examples
            are these items, of weight 0, and this is how often each was to be expected among them; None in scoring.
    """

    scalar: jax.Array | CommonLines
    bags: BagRows
    dense: jax.Array
    dense_index: jax.Array
    label: jax.Array
    weight: jax.Array
    random: jax.Array | None = None
    sampled: jax.Array | None = None
    blocks: Blocks = NO_BLOCKS
    statistics: jax.Array | None = None
    group: Group | None = None
    sides: tuple[SideVectors, ...] = ()
    expected: jax.Array | None = None

    @property
    def batch(self) -> int:
        """The number of examples, with padding: a symbol of JAX where an export traces a batch of any size."""
        return self.weight.shape[0]

    def block(self, block: SlotBlock[Any, Any, B]) -> tuple[B, ...]:
        """Return the inputs of a block, one for each record of the layout."""
        return self.blocks.get(block.name, ())

    def having(self, block: SlotBlock[Any, Any, B], records: Iterable[B]) -> Inputs:
        """Return the inputs with others of a block."""
        return self._replace(blocks=replaced(self.blocks, block, records))
