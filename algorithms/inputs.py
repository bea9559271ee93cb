"""What an algorithm sees: the slots of a model, and the batches that its functions see."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import jax

    from .lines import CommonLines, Group


class ArraySlot(NamedTuple):
    """A slot of arrays of vectors: its name, the option that names it, and the elements of each vector."""

    name: str
    option: str
    dim: int


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
        bags: the multi-valued and weighted slots, which `Inputs.bag_slot` counts.
        continuous: what operators offer of features, and the continuous slots: the first columns of `Inputs.dense`.
        vectors: the slots that are dense vectors, with their elements, the columns after them.
        labels: the columns to predict.
        histories: the groups of sequences, by the option that names them, with the slots of each.
        vector_arrays: the slots of arrays of vectors, as `Inputs.vector_arrays` has them.
        classes: of the label, where it is one of several classes; else 0.
        sides: the vectors with ids that values of slots have.
        offered: how many of `continuous` operators offer.
    """

    scalar: tuple[str, ...] = ()
    bags: tuple[str, ...] = ()
    continuous: tuple[str, ...] = ()
    vectors: tuple[tuple[str, int], ...] = ()
    labels: tuple[str, ...] = ("label",)
    histories: tuple[tuple[str, tuple[str, ...]], ...] = ()
    classes: int = 0
    vector_arrays: tuple[ArraySlot, ...] = ()
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
        sequences = (name for _, slots in self.histories for name in slots)
        vectors = (name for name, _ in self.vectors)
        arrays = (slot.name for slot in self.vector_arrays)
        return (*self.scalar, *self.bags, *self.continuous, *vectors, *sequences, *arrays)


class History(NamedTuple):
    """The sequences of one group of slots, whose elements are aligned: what a user clicked, and the category of each.

    Each example has its last `length` elements from the first place on, the newest last; L is 8, 16, 32, ..., or `length`.

    Attributes:
        rows: int32[fields, batch, L]; the row of each element, that of zeros where it is NULL or there is none.
        mask: bool[batch, L]; whether an element is there, with a value in some field.
        owner: of an algorithm that is `compact`, int32[batch], where neighbouring examples have histories in common: rows and
            mask are then of groups in the place of examples, and this is the group of each example, ascending; else None.
    """

    rows: jax.Array
    mask: jax.Array
    owner: jax.Array | None = None


class Vectors(NamedTuple):
    """The vectors of one slot, of each example the last `length`, from the first place on; L is 8, 16, 32, ..., or `length`.

    Attributes:
        values: float32[batch, L, dim]; zeros where there is none, and in place of what is no finite number.
        mask: bool[batch, L]; whether a vector is there.
    """

    values: jax.Array
    mask: jax.Array


class SideVectors(NamedTuple):
    """The vectors with ids, of one kind, that the features of a batch have; in scoring what their network makes of them.

    Attributes:
        values: float32[k, elements]; each distinct one once, after two lines of zeros: for rows whose slots have no vectors,
            and for features that lack theirs.
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
        bag_index: int32[num_values]; values of multi-valued and weighted slots.
        bag_example: int32[num_values]; the example of each value, 0 for padding.
        bag_slot: int32[num_values]; which multi-valued slot each value belongs to, counted from 0.
        bag_weight: float32[num_values]; 1 for multi-valued slots, the map's value for weighted ones, 0 for padding.
        dense: float32[batch, num_dense]; what operators offer of features, standardised continuous slots (0 where absent),
            then elements of dense vectors.
        dense_index: int32[num_dense]; the row of each of them.
        label: float32[batch, num_labels]; of a label with classes the number of one.
        weight: float32[batch]; example weight, 0 on padding.
        random: uint32[2], where the algorithm asks for it: what is random in an update is a function of it; None in scoring.
        sampled: int32[num_sampled]; the rows of features drawn at random, where the algorithm asks for them; None in scoring.
        histories: one for each group of `Layout.histories`.
        vector_arrays: one for each of `Layout.vector_arrays`.
        statistics: float32[n, k]; of each row what the algorithm's `statistics` name, 0 where it is absent; None where it names
            none. No gradient flows into it.
        group: of an algorithm that is `compact`, what neighbouring examples have in common: their values of some multi-valued
            slots are there, and `scalar` and `histories` hold what is common once; None where they have too little, and of
            other algorithms.
        sides: one for each of `Layout.sides`; algorithms see them as further slots.
        expected: float32[n], where an algorithm has items drawn at random for each batch (see RandomItems): the last n examples
            are these items, of weight 0, and this is how often each was to be expected among them; None in scoring.
    """

    scalar: jax.Array | CommonLines
    bag_index: jax.Array
    bag_example: jax.Array
    bag_slot: jax.Array
    bag_weight: jax.Array
    dense: jax.Array
    dense_index: jax.Array
    label: jax.Array
    weight: jax.Array
    random: jax.Array | None = None
    sampled: jax.Array | None = None
    histories: tuple[History, ...] = ()
    statistics: jax.Array | None = None
    group: Group | None = None
    vector_arrays: tuple[Vectors, ...] = ()
    sides: tuple[SideVectors, ...] = ()
    expected: jax.Array | None = None

    @property
    def batch(self) -> int:
        """The number of examples, with padding: a symbol of JAX where an export traces a batch of any size."""
        return self.weight.shape[0]
