"""The contract of algorithms: what they keep, how they learn, and what they output for an example; pure JAX.

An algorithm says which tables and dense parameters it needs, and how it learns: `Online`, batch by batch; `Solved`, from all
examples at once; `Packaged`, by another package; `Graph`, from edges, by a vertex program. Pulls, pushes, gradients and metrics
are the training's. It is made from its options and the layout of a model's slots.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ..platform.operators.base import DenseSpec, Operator, TableSpec
from .augment import Augment
from .augments.negatives import Negatives
from .augments.pairs import Pairs
from .augments.sampling import Sampling
from .inputs import Inputs, Layout
from .learns import Labels, Losses, Online, Output, Packaged, Parameters, Scores, Solved, Supervised, Unsupervised
from .losses import Loss
from .over_graph import Graph
from .sums import Sums
from .traits import Intercept, Match, Sizing, Traits
from .trees import TreeSearch

if TYPE_CHECKING:
    import optax

    from .layers.side_network import SideNetwork
    from .vertex_program import PairProgram, VertexProgram

__all__ = [
    "Algorithm",
    "Augment",
    "Graph",
    "Inputs",
    "Intercept",
    "Layout",
    "Losses",
    "Match",
    "Negatives",
    "Online",
    "Output",
    "Packaged",
    "Pairs",
    "Parameters",
    "Sampling",
    "Scores",
    "Sizing",
    "Solved",
    "Sums",
    "Supervised",
    "Traits",
    "Unsupervised",
]


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
        items: how items are found: by the inner product of two outputs, so that ML.RECOMMEND computes each once, or in a tree;
            None: they are scored by predictions.
        intercept: a feature that every example has; None: it has none.
        sizing: how many examples it learns from where the statement does not say.
        traits: what it takes, and how its functions see it.
        sides: the networks over vectors with ids, one for each of `Layout.sides`.
    """

    tables: tuple[TableSpec, ...]
    optimizer: Callable[[TableSpec], Operator]
    learns: Online | Solved | Packaged | Graph
    dense: tuple[DenseSpec, ...] = ()
    dense_optimizer: Callable[[], optax.GradientTransformation] | None = None
    operators: Callable[[TableSpec], tuple[Operator, ...]] = no_operators
    outputs: Mapping[str, Output] = field(default_factory=dict)
    items: Match | TreeSearch | None = None
    intercept: Intercept | None = field(default_factory=Intercept)
    sizing: Sizing = field(default_factory=Sizing)
    traits: Traits = field(default_factory=Traits)
    sides: tuple[SideNetwork, ...] = ()

    @property
    def match(self) -> Match | None:
        """The outputs whose inner product scores an item for a query, if it finds items so."""
        return self.items if isinstance(self.items, Match) else None

    @property
    def tree(self) -> TreeSearch | None:
        """The tree in which it finds items, if it has one."""
        return self.items if isinstance(self.items, TreeSearch) else None

    @property
    def labels(self) -> Labels:
        """How many labels it learns, and how they hang together."""
        return "one" if self.supervised is None else self.supervised.labels

    @property
    def sums(self) -> Sums | None:
        """How its scores are sums over features; None where they are more than that."""
        return None if self.supervised is None else self.supervised.sums

    @property
    def supervised(self) -> Supervised | None:
        """The objective over rows where it learns to predict labels from rows."""
        goal = None if self.learns.learner is not None else self.learns.goal
        return None if goal is None else goal.supervised

    def with_goal(self, goal: Supervised) -> Algorithm:
        """Return the same with another objective over rows."""
        return replace(self, learns=self.learns.with_goal(goal))

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
        """The kind of its labels for metrics: `classes` where they are 0 or 1, `multiclass`, or `numbers`, or `found`; of
        numbers, after a space, `counts`, or `quantile=` and which is predicted."""
        if self.learns.learner is None and self.goal.finds:
            return "found"
        if self.classifier or self.multiclass or self.loss is None:
            return "classes" if self.classifier else "multiclass" if self.multiclass else "numbers"
        more = " counts" if self.loss.counts else f" quantile={self.loss.at!r}" if self.loss.at is not None else ""
        return f"numbers{more}"

    @property
    def values(self) -> bool:
        """Whether a prediction is one number for each label: a probability, a mean or a quantile."""
        return not self.multiclass and self.measured != "found"

    @property
    def standardised(self) -> bool:
        """Labels are learned in standard deviations from their mean."""
        return self.loss is not None and self.loss.standardised

    @property
    def baseline(self) -> Callable[[float], float] | None:
        """Mean label -> the score with which the intercept of a new model can begin."""
        return self.loss.baseline if self.loss is not None and self.serves else None

    @property
    def program(self) -> VertexProgram | PairProgram | None:
        """The vertex program that computes it; None where it learns from rows."""
        found: VertexProgram | PairProgram | None = getattr(self.learns, "program", None)
        return found

    @property
    def serves(self) -> bool:
        """Whether shards keep what is learned, batch by batch; else all examples are learned at once."""
        return self.learns.serves
