"""An algorithm that learns from arrays of vectors: a logistic regression on the mean of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import optax

from xpsql.algorithms.base import Algorithm, Inputs, Layout, Online, Supervised
from xpsql.algorithms.blocks.vector_arrays import VECTOR_ARRAYS
from xpsql.algorithms.linear.scores import linear_scores
from xpsql.algorithms.losses import LOGLOSS
from xpsql.platform.operators.base import DenseSpec, Operator, TableSpec
from xpsql.platform.operators.ftrl import FtrlOptions, ftrl
from xpsql.platform.options import Part, option


@dataclass(frozen=True)
class AveragesOptions:
    """Options of averages."""

    frames: tuple[str, ...] = option((), "arrays of vectors", role="vectors", length="length")
    length: int = option(10, "vectors of an array that are read, the last ones", minimum=1)


def averages(options: AveragesOptions, layout: Layout) -> Algorithm:
    """Learn a logistic regression over the other slots and the mean of each array's vectors."""
    assert all(slot.option == "frames" for slot in layout.block(VECTOR_ARRAYS))
    dims = [slot.dim for slot in layout.block(VECTOR_ARRAYS)]

    def scores(parameters: Mapping[str, jax.Array], inputs: Inputs) -> jax.Array:
        means = [one.values.sum(axis=1) / jnp.maximum(one.mask.sum(axis=1), 1)[:, None] for one in inputs.block(VECTOR_ARRAYS)]
        return linear_scores(parameters["weights"], inputs) + jnp.concatenate(means, axis=1) @ parameters["directions"]

    def optimizer(table: TableSpec) -> Operator:
        return ftrl(FtrlOptions(), table)

    directions = DenseSpec("directions", (sum(dims), 1))
    goal = Online(Supervised(scores, LOGLOSS))
    return Algorithm((TableSpec("weights", 1),), optimizer, goal, dense=(directions,), dense_optimizer=lambda: optax.adam(0.05))


AVERAGES = Part("averages", AveragesOptions, averages)
