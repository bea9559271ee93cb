"""The contract of algorithms: a pure JAX function from rows and inputs to scores; everything else is operators.

An algorithm says which tables and dense parameters it needs and how a batch is scored. Loss, gradients, pulls and pushes are
the flow's. It is made from its options and the layout of a model's slots.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, NamedTuple, Protocol

import jax
import numpy as np
from numpy.typing import NDArray

from ..platform.operators.base import DenseSpec, Operator, TableSpec

if TYPE_CHECKING:
    import optax


class Layout(NamedTuple):
    """The slots of a model, in the order in which Inputs holds them.

    Attributes:
        scalar: the categorical slots, one line of `Inputs.scalar` each, before the intercept's.
        bags: the multi-valued and weighted slots, which `Inputs.bag_slot` counts.
        continuous: what operators offer of features, and the continuous slots: the first columns of `Inputs.dense`.
        vectors: the slots that are dense vectors, with their elements, the columns after them.
        labels: the columns to predict.
    """

    scalar: tuple[str, ...] = ()
    bags: tuple[str, ...] = ()
    continuous: tuple[str, ...] = ()
    vectors: tuple[tuple[str, int], ...] = ()
    labels: tuple[str, ...] = ("label",)

    @property
    def slots(self) -> tuple[str, ...]:
        """All slots, in this order."""
        return (*self.scalar, *self.bags, *self.continuous, *(name for name, _ in self.vectors))


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
        label: float32[batch, num_labels].
        weight: float32[batch]; example weight, 0 on padding.
        random: uint32[2], where the algorithm asks for it: what is random in an update is a function of it; None in scoring.
        sampled: int32[num_sampled]; the rows of features drawn at random, where the algorithm asks for them; None in scoring.
    """

    scalar: jax.Array
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


class Sampling(NamedTuple):
    """How an algorithm that tells features from random ones has them drawn.

    Attributes:
        number: drawn for each batch, with replacement, among the values of multi-valued slots in the piece of the input that
            the batch is cut from (about 131,072 rows).
        power: they are drawn by count^power.
        frequent: values that make up a larger share f of all have `Inputs.bag_weight` sqrt(frequent / f) while learning.
    """

    number: int
    power: float
    frequent: float


Doubles = NDArray[np.float64]
Objective = Callable[[Doubles], tuple[float, Doubles]]
"""Weights of all features -> the weighted sum of losses over all examples, and its gradient."""


class Known(NamedTuple):
    """What is known of weights that are found from all examples at once.

    Attributes:
        start: float64[n], their first values.
        counts: float64[n], how often the feature of each occurs.
        intercept: bool[n], those of the intercept, which have no penalty.
    """

    start: Doubles
    counts: Doubles
    intercept: NDArray[np.bool_]


Solve = Callable[[Objective, Known, Callable[[int, float], None]], Doubles]
"""(objective, what is known of the weights, told each iteration and the value that it reached) -> weights, float64[n]."""


class Negatives(NamedTuple):
    """Rows of items that were not taken, which a training adds: the same row, with label 0 and the item of another one.

    Attributes:
        number: of them, after each row.
        power: items are drawn by count^power.
        item: the slots of the item; the first one, which is categorical, tells items apart.
        had: the multi-valued slots of items that the user has; a row of one of them, or of the item taken, counts nothing.
    """

    number: int
    power: float
    item: tuple[str, ...]
    had: tuple[str, ...]


class Pairs(NamedTuple):
    """An item, and what was had before, which an algorithm learns as pairs: features of their own, in place of both slots.

    Attributes:
        item, history: where the slots stand among the categorical and among the multi-valued ones.
    """

    item: int
    history: int


class Matrix(NamedTuple):
    """Examples as packages take them.

    Attributes:
        values: float32[n, columns]: for each categorical slot the number of its category, from 0, then continuous slots and the
            elements of vectors as they are, finite; NaN where a value is missing or a category is not known.
        names: of the columns.
        num_categorical: how many columns, the first ones, are categories.
        label, weight: float32[n]; of examples that are learned from.
    """

    values: NDArray[np.float32]
    names: tuple[str, ...]
    num_categorical: int
    label: NDArray[np.float32]
    weight: NDArray[np.float32]


Predict = Callable[[Matrix], NDArray[np.float32]]
"""Examples -> predictions, float32[n]."""


class Peers(NamedTuple):
    """How a process finds the others that a package learns with, each from examples of its own.

    Attributes:
        number: of this process among them, from 0.
        host, port: where they meet.
    """

    number: int
    host: str
    port: int


class Learner(Protocol):
    """What a package learns and predicts with. Its packages are imported where they are used.

    Attributes:
        categories: values of a categorical slot that get a number, the most frequent ones.
    """

    categories: int

    def gathering(self, count: int, host: str) -> AbstractContextManager[int]:
        """Let `count` processes meet in this one, which is one of them, while the block runs; give the port.

        Args:
            host: the number of this machine.
        """
        ...

    def fit(self, matrix: Matrix, seed: int, threads: int, before: bytes | None, peers: Peers | None) -> bytes:
        """Learn, going on from a model where one is given, and return the model.

        Args:
            peers: processes that learn the same model from other examples, all at the same time; None for none.

        Raises:
            LostError: one of them is lost.
        """
        ...

    def load(self, model: bytes) -> Predict:
        """Return how a model predicts."""
        ...


def no_operators(table: TableSpec) -> tuple[Operator, ...]:
    return ()


class Algorithm(NamedTuple):
    """A recipe, made by a factory: (options, layout) -> Algorithm.

    Attributes:
        tables: the sparse tables it keeps.
        optimizer: table name -> the operator that ends its chain where the statement names none: TableSpec -> Operator.
        scores: (parameters by name: the rows of a table, float32[n, dim], and dense parameters; inputs) ->
            float32[batch, num_labels], before the link.
        link: scores -> predictions.
        loss: (scores, labels) -> float32[batch, num_labels].
        classifier: labels must be 0 or 1.
        standardised: labels are any numbers, learned less their mean over their standard deviation, by the statistics of all
            those so far, as continuous slots are; scores and weights are in that unit, predictions are those of the labels.
        intercept: a feature that every example has, slot "(intercept)".
        baseline: mean label -> the best score of a model that knows only that. The intercept of a new model can begin there, in
            the first table, whose rows then have an element for each label. None: it begins as other features do.
        begins_at_mean: it begins there where the statement does not say, at the mean label of the input; else at 0, but where
            labels of one kind are rare.
        dense: the dense parameters it keeps; their names differ from the tables'.
        dense_optimizer: makes the optimizer of each dense parameter; it sees the gradient of the batch's mean loss.
        operators: the operators of a table's own, which stand before the statement's: TableSpec -> operators. A table after the
            first has rows for keys that the first one has, and where its own operators admit them: admit(information > x) gives
            a feature a second, longer vector once it has told enough.
        multi_label: it learns several labels at once, num_labels of them.
        random: an update needs `Inputs.random`.
        logarithmic: it takes continuous slots on a logarithmic scale, sign(x) log(1 + |x|), standardised there.
        sampling: it needs `Inputs.sampled`.
        negatives: the rows of items not taken that a training adds; None for none.
        pairs: it learns pairs of items: `Inputs` have them as the one multi-valued slot, and the intercept.
        embed: (parameters, inputs) -> float32[batch, k], a vector per example: what ML.PREDICT gives, as predicted_vector,
            instead of predictions. An algorithm without labels needs it; what it predicts while learning is then its loss.
        solve: how it finds the weights of its one table from all examples at once, which are kept in memory, instead of batch
            by batch; its optimizer then keeps the column "w" and nothing else.
        learner: a package that learns in its stead, from all examples as a matrix.
        large_batches: a long log may be learned in larger batches without loss of accuracy, where the statement does not say.
        least_batch: examples per update of a short log, at least, where the statement does not say.
    """

    tables: tuple[TableSpec, ...]
    optimizer: Callable[[TableSpec], Operator]
    scores: Callable[[Mapping[str, jax.Array], Inputs], jax.Array]
    link: Callable[[jax.Array], jax.Array]
    loss: Callable[[jax.Array, jax.Array], jax.Array]
    classifier: bool = True
    standardised: bool = False
    intercept: bool = True
    baseline: Callable[[float], float] | None = None
    begins_at_mean: bool = False
    dense: tuple[DenseSpec, ...] = ()
    dense_optimizer: Callable[[], optax.GradientTransformation] | None = None
    operators: Callable[[TableSpec], tuple[Operator, ...]] = no_operators
    multi_label: bool = False
    random: bool = False
    logarithmic: bool = False
    sampling: Sampling | None = None
    negatives: Negatives | None = None
    pairs: Pairs | None = None
    embed: Callable[[Mapping[str, jax.Array], Inputs], jax.Array] | None = None
    solve: Solve | None = None
    learner: Learner | None = None
    large_batches: bool = False
    least_batch: int = 1

    @property
    def serves(self) -> bool:
        """Whether shards keep what is learned, batch by batch; else all examples are learned at once."""
        return self.solve is None and self.learner is None
