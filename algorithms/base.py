"""The contract of algorithms: what they keep, how they learn, and what they output for an example; pure JAX.

An algorithm says which tables and dense parameters it needs, and how it learns: `Online`, batch by batch; `Solved`, from all
examples at once; `Packaged`, by another package. Pulls, pushes, gradients and metrics are the training's. It is made from its
options and the layout of a model's slots.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from ..platform.operators.base import DenseSpec, Operator, TableSpec
from ..platform.options import Part
from .augment import Augment
from .augments.negatives import Negatives
from .augments.pairs import Pairs
from .augments.sampling import Sampling
from .inputs import Inputs, Layout
from .learns import Losses, Match, Online, Output, Packaged, Parameters, Scores, Solved, Supervised, Unsupervised
from .losses import Loss
from .sums import Sums
from .trees import TreeSearch

if TYPE_CHECKING:
    import optax

    from .layers.side_network import SideNetwork

__all__ = [
    "Algorithm",
    "AtOnce",
    "Augment",
    "Inputs",
    "Layout",
    "Losses",
    "Match",
    "Negatives",
    "Online",
    "Output",
    "Packaged",
    "Pairs",
    "Parameters",
    "Positive",
    "Sampling",
    "Scores",
    "Solved",
    "Sums",
    "Supervised",
    "Unlabelled",
    "Unsupervised",
]

Options = TypeVar("Options")


def no_operators(table: TableSpec) -> tuple[Operator, ...]:
    return ()


@dataclass(frozen=True, eq=False)
class Algorithm:
    """A recipe, made by a factory: (options, layout) -> Algorithm. It is equal only to itself.

    Attributes:
        tables: the sparse tables it keeps.
        optimizer: the operator that ends a table's chain where the statement names none: TableSpec -> Operator.
        learns: how.
        dense: the dense parameters it keeps; their names differ from the tables'.
        dense_optimizer: makes the optimizer of parameters that name none; it sees the gradient of the batch's mean loss.
        operators: the operators of a table's own, which stand before the statement's: TableSpec -> operators. A table after the
            first has rows for keys that the first one has, and where its own operators admit them: admit(information > x) gives
            a feature a second, longer vector once it has enough information.
        outputs: what ML.PREDICT gives beside the predictions, by name: predicted_<name>. One without labels has some.
        match: the outputs whose inner product scores an item for a query, so that ML.RECOMMEND computes each once; None: items
            are scored by predictions.
        tree: how it finds items in a tree; None: it has no tree.
        intercept: a feature that every example has, slot "(intercept)". That of a new model can begin at the baseline of the
            loss, in the first table, whose rows then have an element for each label.
        begins_at_mean: it begins there where the statement does not say, at the mean label of the input; else at 0, but where
            labels of one kind are rare.
        multi_label: it learns several labels at once, num_labels of them.
        chained: a label can be 1 only where the one before it is, and its element of the intercept is its score given that one.
        logarithmic: it takes continuous slots on a logarithmic scale, sign(x) log(1 + |x|), standardised there.
        statistics: of rows that its functions see as `Inputs.statistics`: count, updates, shows, clicks, and age, the examples
            since the first with the feature; of the first table.
        sums: how its scores are sums over features, as `learns` has them; None where they are more than that.
        large_batches: a long log may be learned in larger batches without loss of accuracy, where the statement does not say.
        least_batch: examples per update of a short log, at least, where the statement does not say.
        least_examples: learned from a short log, at least, in as many passes, where the statement does not say.
        compact: its functions see slots by way of the look-ups and poolings of `algorithms/layers` alone, so that what
            neighbouring examples have in common may come once, see `Inputs.group`.
        begins: the tables in which the intercept begins at the baseline, each with that of one label; empty: the first table,
            with the elements of all labels.
        sides: the networks over vectors with ids, one for each of `Layout.sides`.
        outside: the package that its functions call where JAX cannot look, so that no graph can be made of them; "" for none.
    """

    tables: tuple[TableSpec, ...]
    optimizer: Callable[[TableSpec], Operator]
    learns: Online | Solved | Packaged
    dense: tuple[DenseSpec, ...] = ()
    dense_optimizer: Callable[[], optax.GradientTransformation] | None = None
    operators: Callable[[TableSpec], tuple[Operator, ...]] = no_operators
    outputs: Mapping[str, Output] = field(default_factory=dict)
    match: Match | None = None
    tree: TreeSearch | None = None
    intercept: bool = True
    begins_at_mean: bool = False
    multi_label: bool = False
    chained: bool = False
    logarithmic: bool = False
    statistics: tuple[str, ...] = ()
    sums: Sums | None = None
    large_batches: bool = False
    least_batch: int = 1
    least_examples: int = 0
    compact: bool = False
    begins: tuple[str, ...] = ()
    sides: tuple[SideNetwork, ...] = ()
    outside: str = ""

    @property
    def goal(self) -> Supervised | Unsupervised:
        """The objective over rows."""
        return self.learns.goal

    @property
    def scores(self) -> Scores:
        """The scores of an algorithm that learns to predict labels, from rows."""
        scores = self.goal.scores
        assert scores is not None
        return scores

    @property
    def loss(self) -> Loss | None:
        """The loss of its labels; None where it learns without labels."""
        return self.learns.loss

    @property
    def classifier(self) -> bool:
        """Labels must be 0 or 1."""
        return self.loss is not None and self.loss.classifier

    @property
    def multiclass(self) -> bool:
        """The label is one of several classes."""
        return self.loss is not None and self.loss.multiclass

    @property
    def late(self) -> bool:
        """Its labels come late."""
        return self.loss is not None and self.loss.late

    @property
    def measured(self) -> str:
        """The kind of its labels for metrics: `classes` where they are 0 or 1, `multiclass`, or `numbers`, or `found`."""
        if self.learns.learner is None and self.goal.finds:
            return "found"
        return "classes" if self.classifier else "multiclass" if self.multiclass else "numbers"

    @property
    def standardised(self) -> bool:
        """Labels are learned in standard deviations from their mean."""
        return self.loss is not None and self.loss.standardised

    @property
    def baseline(self) -> Callable[[float], float] | None:
        """Mean label -> the score with which the intercept of a new model can begin."""
        return self.loss.baseline if self.loss is not None and self.serves else None

    @property
    def serves(self) -> bool:
        """Whether shards keep what is learned, batch by batch; else all examples are learned at once."""
        return self.learns.serves


class AtOnce(Part[Options, Algorithm]):
    """The part of an algorithm that learns all examples at once, `Solved` or `Packaged`: its statements need no shards."""

    __slots__ = ()


class Unlabelled(Part[Options, Algorithm]):
    """The part of an algorithm that learns without labels: LABEL has no effect in its statements."""

    __slots__ = ()


class Positive(Unlabelled[Options]):
    """The part of an algorithm that learns from what was taken: LABEL, where a statement has it, says which rows were."""

    __slots__ = ()
