"""The algorithm pooled."""

from dataclasses import dataclass

import jax.numpy as jnp
import optax
from jax.ops import segment_sum

from xpsql.algorithms.base import Algorithm, Layout, Online, Supervised
from xpsql.algorithms.layers.activations import ACTIVATIONS
from xpsql.algorithms.layers.initial import uniform
from xpsql.algorithms.linear.scores import linear_scores
from xpsql.algorithms.losses import LossOptions, loss_of
from xpsql.platform.operators.base import DenseSpec, TableSpec
from xpsql.platform.operators.ftrl import FtrlOptions, ftrl
from xpsql.platform.options import Part, option


@dataclass(frozen=True)
class PooledOptions(LossOptions):
    dim: int = option(8, "elements of a feature's vector", minimum=1)
    activation: str = option("tanh", "of the summed vectors", choices=tuple(ACTIVATIONS))


def pooled(options: PooledOptions, layout: Layout) -> Algorithm:
    """Learn a linear model and a hidden layer: score = sum of w_i x_i + out . activation(sum of v_i x_i).

    Source: Rumelhart, Hinton and Williams, "Learning representations by back-propagating errors", Nature 1986.
    """
    loss, activation = loss_of(options), ACTIVATIONS[options.activation]
    learned = {name: DenseSpec(name, v.shape, lambda seed, v=v: v) for name, v in activation.init(options.dim).items()}

    def scores(parameters, inputs):
        v = parameters["vectors"]
        total = v[inputs.scalar].sum(0) + inputs.dense @ v[inputs.dense_index]
        total += segment_sum(v[inputs.bags.rows] * inputs.bags.weight[:, None], inputs.bags.example, len(inputs.weight))
        hidden = activation.apply(parameters, total)
        return linear_scores(parameters["weights"], inputs) + (hidden @ parameters["out"])[:, None]

    return Algorithm(
        tables=(TableSpec("weights", 1), TableSpec("vectors", options.dim, uniform(0.1, options.dim))),
        optimizer=lambda table: ftrl(FtrlOptions(alpha=0.1), table),
        learns=Online(Supervised(scores, loss)),
        dense=(DenseSpec("out", (options.dim,), lambda seed: jnp.ones(options.dim) / options.dim), *learned.values()),
        dense_optimizer=lambda: optax.adam(0.001),
    )


POOLED = Part("pooled", PooledOptions, pooled)
