"""FM: a linear model plus a vector per feature, whose inner products are the features' pairwise interactions."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import jax
import jax.numpy as jnp

from ...platform.operators.base import Operator, TableSpec
from ...platform.options import Part, given_or, known, option
from ..base import Algorithm, Inputs, Intercept, Layout, Online, Supervised, Traits
from ..layers.initial import uniform
from ..layers.long_vectors import LONG, LongOptions, admits_long, long_tables
from ..layers.lookups import sums, taken
from ..layers.pooling import over_values, pooled
from ..losses import LossOptions, loss_of
from ..rates import alpha_option, moved, rate_of, spread_of, vector_rate_of, vectors_by, weights_by
from .scores import linear_scores, pooling_option, sums_of


@dataclass(frozen=True)
class VectorOptions(LossOptions):
    """What fm and ffm have in common."""

    dim: int = option(8, "elements of a feature's vector", minimum=1, maximum=1024)
    alpha: float | None = alpha_option()
    vector_alpha: float | None = option(
        None,
        "learning rate of the vectors; by default 0.4 over the root of the number of slots, an array or map counting as six, "
        "with loss = 'squared', 'quantile' or 'poisson' 0.1 over it",
        minimum=0,
        open_minimum=True,
        optimizer=True,
    )
    init_scale: float | None = option(
        None, "standard deviation of new vectors; by default 0.06 over the root of the number of slots", minimum=0
    )
    pooling: str = pooling_option()
    intercept: bool = option(True, "learn an intercept")

    def adapted(self, layout: Layout) -> Self:
        """See `adapted` of platform/options."""
        rates = {"alpha": rate_of(layout, self.loss), "vector_alpha": vector_rate_of(layout, self.loss)}
        return given_or(self, **rates, init_scale=spread_of(layout))


@dataclass(frozen=True)
class FmOptions(LongOptions, VectorOptions):
    """Options of fm."""


def fm(options: FmOptions, layout: Layout) -> Algorithm:
    """Learn a factorization machine: a weight and a vector per feature, both by FTRL-proximal.

    With a label of classes, a feature has a weight and a vector for each class. A feature whose information exceeds
    `long_information` gets a second vector of `long_dim` elements, which interacts only with other second vectors.

    Source: Rendle, Factorization Machines, ICDM 2010; the sum over pairs is computed in linear time by its lemma 3.1.
    """

    options = options.adapted(layout)
    alpha, vector_alpha, scale = known(options.alpha), known(options.vector_alpha), known(options.init_scale)
    loss, outputs = loss_of(options, layout.classes), layout.classes or 1

    def optimizer(table: TableSpec) -> Operator:
        return weights_by(alpha, table) if table.name == "weights" else vectors_by(vector_alpha, table, moved(layout))

    def scores(rows: Mapping[str, jax.Array], inputs: Inputs) -> jax.Array:
        inputs = pooled(inputs, layout, options.pooling)
        features = features_only(inputs, options.intercept)
        pairs = pair_scores(rows["vectors"], features, outputs)
        if options.long_dim:
            pairs += pair_scores(rows[LONG], features, outputs)
        return linear_scores(rows["weights"], inputs) + pairs

    size = options.dim * outputs
    vectors, long = TableSpec("vectors", size, uniform(scale, size)), long_tables(options, outputs, scale)
    return Algorithm(
        tables=(TableSpec("weights", outputs), vectors, *long),
        optimizer=optimizer,
        learns=Online(Supervised(scores, loss, sums=None if options.long_dim else sums_of(loss, "vectors", options.pooling))),
        intercept=Intercept() if options.intercept else None,
        operators=admits_long(options),
        traits=Traits(compact=True),
    )


def features_only(inputs: Inputs, intercept: bool) -> Inputs:
    """Return the inputs without the intercept, which interacts with nothing."""
    return inputs._replace(scalar=inputs.scalar[:-1]) if intercept else inputs


def pair_scores(vectors: jax.Array, inputs: Inputs, outputs: int) -> jax.Array:
    """Return the sum over pairs of features of <v_i, v_j> x_i x_j.

    Args:
        vectors: float32[n, outputs * dim], a feature's vectors side by side.
        inputs: one batch.

    Returns:
        float32[batch, outputs]
    """
    total, squares = sums(vectors, inputs.scalar)
    values = over_values(inputs, functools.partial(with_squares, vectors))
    if values is not None:
        own, own_squares = jnp.split(values, 2, axis=1)
        total, squares = total + own, squares + own_squares
    if inputs.dense.shape[1]:
        own = taken(vectors, inputs.dense_index)
        total += inputs.dense @ own
        squares += (inputs.dense * inputs.dense) @ (own * own)
    return 0.5 * (total * total - squares).reshape(total.shape[0], outputs, -1).sum(axis=2)


def with_squares(vectors: jax.Array, index: jax.Array, weight: jax.Array) -> jax.Array:
    """Return weighted vectors, and their squares beside them, float32[k, 2 * dim]."""
    values = taken(vectors, index) * weight[:, None]
    return jnp.concatenate([values, values * values], axis=1)


FM = Part("fm", FmOptions, fm)
