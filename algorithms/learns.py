"""How algorithms learn: batch by batch, from all examples at once, by another package, or as over_graph.py has it.

Each answers the same questions, so that nobody asks which of them it is: `goal`, `loss`, `augment`, `learner`, `solve`,
`examples_meet`, `random`, and whether it `serves`, that is, shards keep what is learned, batch by batch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

import jax

from .augment import Augment
from .inputs import Inputs
from .learner import Learner
from .losses import Loss
from .solver import Solve
from .sums import Sums

Parameters = Mapping[str, jax.Array]
"""By name: the rows of a table, float32[n, dim], and dense parameters."""

Scores = Callable[[Parameters, Inputs], jax.Array]
"""(parameters, inputs) -> float32[batch, num_labels], before the link."""

Losses = Callable[[Parameters, Inputs], tuple[jax.Array, jax.Array | None]]
"""(parameters, inputs) -> what is minimised, float32[batch, num_labels or 1], and scores of that shape, or None; both of each
example, whose weight the training multiplies with."""

Labels = Literal["one", "several", "chain"]

Guard = Callable[[Callable[..., Any]], Callable[..., Any]]
"""Function -> the same function, with something around it."""


class Supervised(NamedTuple):
    """It learns to predict labels.

    Attributes:
        scores: what is predicted, before the link.
        loss: of scores and labels; its link makes scores predictions.
        objective: what is minimised in place of that loss, where more than scores have a part in it: auxiliary losses, examples
            that are contrasted with each other. The scores that it returns equal `scores`; None: they are computed separately.
        labels: "one", "several" at once, num_labels of them, or a "chain" of several, where a label can be 1 only where the one
            before it is, and its element of the intercept is its score given that one.
        sums: how the scores are sums over features; None where they are more than that.
    """

    scores: Scores
    loss: Loss
    objective: Losses | None = None
    labels: Labels = "one"
    sums: Sums | None = None

    @property
    def supervised(self) -> Supervised:
        """The objective, as it learns to predict labels."""
        return self

    @property
    def finds(self) -> bool:
        """See Unsupervised."""
        return False

    def losses(self, parameters: Parameters, inputs: Inputs) -> tuple[jax.Array, jax.Array]:
        """Return what is minimised, and the scores."""
        if self.objective is None:
            scores = self.scores(parameters, inputs)
            return self.loss.value(scores, inputs.label), scores
        losses, given = self.objective(parameters, inputs)
        return losses, self.scores(parameters, inputs) if given is None else given

    def predictions(self, scores: jax.Array) -> jax.Array:
        """Return what scores predict."""
        return self.loss.link(scores)

    def guarded(self, guard: Guard) -> Supervised:
        """Return the same with its functions guarded."""
        return self.through(guard).with_loss(self.loss._replace(value=guard(self.loss.value)))

    def through(self, change: Guard) -> Supervised:
        """Return the same with its functions of parameters and inputs changed."""
        return self._replace(scores=change(self.scores), objective=None if self.objective is None else change(self.objective))

    def with_loss(self, loss: Loss) -> Supervised:
        """Return the same with another loss."""
        return self._replace(loss=loss)


class Unsupervised(NamedTuple):
    """It learns without labels; its results for an example are the algorithm's outputs.

    Attributes:
        objective: what is minimised, and what metrics measure in place of predictions; None: the same.
        finds: what they measure are two columns, the loss, and whether the example's item is found in a sample; see found_in.
    """

    objective: Losses
    finds: bool = False

    @property
    def scores(self) -> None:
        """It predicts no labels."""
        return None

    @property
    def supervised(self) -> None:
        """It predicts no labels."""
        return None

    @property
    def loss(self) -> None:
        """It has no labels."""
        return None

    def losses(self, parameters: Parameters, inputs: Inputs) -> tuple[jax.Array, jax.Array]:
        """Return what is minimised, and what is measured."""
        losses, measured = self.objective(parameters, inputs)
        return losses, losses if measured is None else measured

    def predictions(self, scores: jax.Array) -> jax.Array:
        """Return what is measured."""
        return scores

    def guarded(self, guard: Guard) -> Unsupervised:
        """Return the same with its function guarded."""
        return self._replace(objective=guard(self.objective))

    def through(self, change: Guard) -> Unsupervised:
        """Return the same with its function of parameters and inputs changed."""
        return self.guarded(change)

    def with_loss(self, loss: Loss) -> Unsupervised:
        """Return itself, which has none."""
        return self


class Online(NamedTuple):
    """It learns batch by batch, by gradients; shards keep what is learned.

    Attributes:
        goal: what it minimises.
        random: an update needs `Inputs.random`.
        augment: what changes its examples before they are learned from, one after the other.
        examples_meet: the loss of an example depends on the others of its batch.
    """

    goal: Supervised | Unsupervised
    random: bool = False
    augment: tuple[Augment, ...] = ()
    examples_meet: bool = False

    @property
    def copies(self) -> int:
        """Rows that each row of the input becomes."""
        return math.prod(augment.copies for augment in self.augment)

    @property
    def loss(self) -> Loss | None:
        """The loss of labels; None where it learns without them."""
        return self.goal.loss

    @property
    def serves(self) -> bool:
        """Shards keep what is learned, batch by batch."""
        return True

    @property
    def path(self) -> tuple[float, ...]:
        """See Solved."""
        return ()

    @property
    def l2(self) -> float:
        """See Solved."""
        return 0.0

    @property
    def learner(self) -> None:
        """No package learns in its stead."""
        return None

    @property
    def solve(self) -> None:
        """It does not see all examples at once."""
        return None

    def guarded(self, guard: Guard) -> Online:
        """Return the same with its functions guarded."""
        return self._replace(goal=self.goal.guarded(guard))

    def through(self, change: Guard) -> Online:
        """Return the same with its functions of parameters and inputs changed."""
        return self._replace(goal=self.goal.through(change))

    def with_goal(self, goal: Supervised) -> Online:
        """Return the same with another objective."""
        return self._replace(goal=goal)

    def with_loss(self, loss: Loss) -> Online:
        """Return the same with another loss."""
        return self._replace(goal=self.goal.with_loss(loss))


class Solved(NamedTuple):
    """It finds the weights of its one table from all examples at once, which are kept in memory.

    Attributes:
        goal: whose sum over examples is minimised.
        solve: how. The optimizer of the table keeps the column "w" and nothing else.
        l2: the L2 penalty that `solve` adds.
        path: others that are tried, the strongest first, where rows are held out; empty: the statement gives one.
    """

    goal: Supervised
    solve: Solve
    l2: float = 0.0
    path: tuple[float, ...] = ()

    @property
    def augment(self) -> tuple[Augment, ...]:
        """Its examples are as they came."""
        return ()

    @property
    def examples_meet(self) -> bool:
        """See Online."""
        return False

    @property
    def random(self) -> bool:
        """See Online."""
        return False

    @property
    def loss(self) -> Loss:
        """The loss of labels."""
        return self.goal.loss

    @property
    def serves(self) -> bool:
        """See Online."""
        return False

    @property
    def learner(self) -> None:
        """No package learns in its stead."""
        return None

    def guarded(self, guard: Guard) -> Solved:
        """Return the same with its functions guarded."""
        return self._replace(goal=self.goal.guarded(guard))

    def through(self, change: Guard) -> Solved:
        """Return the same with its functions of parameters and inputs changed."""
        return self._replace(goal=self.goal.through(change))

    def with_goal(self, goal: Supervised) -> Solved:
        """Return the same with another objective."""
        return self._replace(goal=goal)

    def with_loss(self, loss: Loss) -> Solved:
        """Return the same with another loss."""
        return self._replace(goal=self.goal.with_loss(loss))


class Packaged(NamedTuple):
    """Another package learns in its stead, from all examples as a matrix.

    Attributes:
        learner: the package's.
        loss: which labels it takes, and what it predicts.
    """

    learner: Learner
    loss: Loss

    @property
    def goal(self) -> Supervised | Unsupervised:
        """It has none over rows."""
        raise TypeError("An algorithm of another package is scored by its learner, not from rows.")

    @property
    def augment(self) -> tuple[Augment, ...]:
        """Its examples are as they came."""
        return ()

    @property
    def examples_meet(self) -> bool:
        """See Online."""
        return False

    @property
    def random(self) -> bool:
        """See Online."""
        return False

    @property
    def serves(self) -> bool:
        """See Online."""
        return False

    @property
    def path(self) -> tuple[float, ...]:
        """See Solved."""
        return ()

    @property
    def l2(self) -> float:
        """See Solved."""
        return 0.0

    @property
    def solve(self) -> None:
        """The package solves."""
        return None

    def guarded(self, guard: Guard) -> Packaged:
        """Return itself: the learner explains errors of its package."""
        return self

    def through(self, change: Guard) -> Packaged:
        """Return itself, which has no functions of parameters and inputs."""
        return self

    def with_goal(self, goal: Supervised) -> Packaged:
        """Return itself, which has none over rows."""
        return self

    def with_loss(self, loss: Loss) -> Packaged:
        """Return the same with another loss."""
        return self._replace(loss=loss)


class Output(NamedTuple):
    """An output of an algorithm for an example, beside its predictions.

    Attributes:
        value: (parameters, inputs) -> float32[batch], or float32[batch, k].
        vector: it is a vector, the latter.
        whole: it is a whole number of 64 bits, of a vertex program.
    """

    value: Scores
    vector: bool = False
    whole: bool = False
