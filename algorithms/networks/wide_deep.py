"""Wide & Deep: a linear model, which remembers, beside a network over vectors, which generalises."""

from __future__ import annotations

import jax

from ...platform.options import Part
from ..base import Algorithm, Inputs, Layout, Parameters
from ..linear.scores import linear_scores
from ..losses import loss_of
from .deep import DeepOptions, deep, deep_tower, network_inputs


def wide_deep(options: DeepOptions, layout: Layout) -> Algorithm:
    """Learn a linear model and a network over a vector per slot, together; cross(a, b) in the query adds to the wide part.

    Source: Cheng et al., "Wide & Deep Learning for Recommender Systems", DLRS 2016.
    """
    tower = deep_tower(options, layout, "wide_deep")

    def scores(parameters: Parameters, inputs: Inputs) -> jax.Array:
        x = network_inputs(parameters, inputs, layout)
        return linear_scores(parameters["weights"], inputs) + tower.apply(parameters, x, inputs.random)

    return deep(options, layout, tower.specs, scores, loss_of(options, layout.classes), "wide_deep")


WIDE_DEEP = Part("wide_deep", DeepOptions, wide_deep)
