"""Linear models: the sum of the weights of an example's features, and the algorithms that are nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import jax
import jax.numpy as jnp

from ...platform.dependent import ARRAYS
from ...platform.operators.base import Context, Operator, Rows, TableSpec
from ...platform.options import given_or, known, option
from ...platform.reserved import INTERCEPT_NUMBER
from ..base import Algorithm, Inputs, Intercept, Layout, Online, Sizing, Supervised, Traits
from ..layers.lookups import is_portable, taken, totals
from ..layers.pooling import POOLINGS, over_values, pooled
from ..losses import Loss, exponential, identity
from ..rates import rate_of, weights_by
from ..sums import Sums

MOST_UNROLLED = 8
"""Labels and classes up to which a step has the sum of each by itself; of more it would take long to trace and compile."""


def pooling_option() -> Any:
    """Declare how the values of a slot of several are joined, in a sum over features."""
    return option(
        "root",
        "how the values of an array or map are joined: their sum; over their number, in a map the sum of its numbers without "
        "sign (mean); or over the root of that (root), so that long ones weigh little more than others",
        choices=POOLINGS,
        facts=(ARRAYS,),
    )


@dataclass(frozen=True, kw_only=True)
class LinearOptions:
    """The options of linear models; a base of theirs."""

    learning_rate: float | None = option(
        None,
        "learning rate; by default 4 over the number of slots, an array or map counting as six, at most 2, where labels are "
        "any numbers 1 over it",
        minimum=0,
        open_minimum=True,
        optimizer=True,
    )
    pooling: str = pooling_option()
    l2: float = option(0.0, "L2 penalty per example; raise it where features are many and examples few", minimum=0)
    intercept: bool = option(True, "learn an intercept; false if a score without features must be 0")

    def adapted(self, layout: Layout) -> Self:
        """See `adapted` of platform/options."""
        return given_or(self, learning_rate=rate_of(layout))


def linear_model(options: LinearOptions, layout: Layout, loss: Loss) -> Algorithm:
    """Return a linear model: a weight per feature, by FTRL-proximal where the statement names no other optimizer.

    It minimises the mean over examples of the loss plus, of each feature that the example has, l2 / 2 times its weight squared.
    """

    rate = known(options.adapted(layout).learning_rate)

    def optimizer(table: TableSpec) -> Operator:
        return weights_by(rate, table)

    def operators(table: TableSpec) -> tuple[Operator, ...]:
        return (penalty(options.l2),) if options.l2 else ()

    def scores(parameters: Mapping[str, jax.Array], inputs: Inputs) -> jax.Array:
        return linear_scores(parameters["weights"], pooled(inputs, layout, options.pooling))

    return Algorithm(
        tables=(TableSpec("weights", layout.outputs),),
        optimizer=optimizer,
        learns=Online(Supervised(scores, loss, labels="several", sums=sums_of(loss, None, options.pooling))),
        intercept=Intercept(at_mean=True) if options.intercept else None,
        operators=operators,
        sizing=Sizing(large_batches=True),
        traits=Traits(compact=True),
    )


def penalty(l2: float) -> Operator:
    """Return the operator that adds the gradient of l2 / 2 w^2, once per occurrence of a feature; the intercept has none."""

    def before(gradients: jax.Array, rows: Rows, context: Context) -> tuple[jax.Array, Rows]:
        strength = jnp.where(context.slot == INTERCEPT_NUMBER, 0, l2 * context.count.astype(jnp.float32))
        return gradients + strength[:, None] * rows["w"], rows

    return Operator({}, before, name="penalty")


def linear_scores(weights: jax.Array, inputs: Inputs) -> jax.Array:
    """Return the sum of weight x value over the features of each example, for each label.

    Args:
        weights: float32[n, num_labels].
        inputs: one batch.

    Returns:
        float32[batch, num_labels]
    """
    # Vectors are summed several times faster than matrices of one column.
    if weights.shape[1] > MOST_UNROLLED and not is_portable():
        by_label: jax.Array = jax.lax.map(lambda column: column_scores(column, inputs), weights.T)
        return by_label.T
    return jnp.stack([column_scores(weights[:, label], inputs) for label in range(weights.shape[1])], axis=1)


def wide_scores(weights: jax.Array, inputs: Inputs, layout: Layout) -> jax.Array:
    """Return the linear part of a network: linear_scores, with arrays and maps pooled by the root of their number.

    Their plain sum would move the score of an example with a long array as far as all other slots together.
    """
    return linear_scores(weights, pooled(inputs, layout, "root"))


def column_scores(column: jax.Array, inputs: Inputs) -> jax.Array:
    total = totals(column, inputs.scalar)
    values = over_values(inputs, lambda index, weight: taken(column, index) * weight)
    if values is not None:
        total += values
    if inputs.dense.shape[1]:
        total += inputs.dense @ taken(column, inputs.dense_index)
    return total


def sums_of(loss: Loss, vectors: str | None, pooling: str, fields: int = 0) -> Sums | None:
    """Return what is declared of a model with the table `weights`; None where its link is computed by JAX alone; see Sums."""
    link = LINKS.get(loss.link)
    return None if link is None else Sums("weights", vectors, link, pooling, fields)


LINKS = {identity: "identity", jax.nn.sigmoid: "sigmoid", exponential: "exponential"}
