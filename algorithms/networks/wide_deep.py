"""Wide & Deep: a linear model, which remembers, beside a network over vectors, which generalises."""

from __future__ import annotations

import jax

from ...platform.options import Part
from ..base import Algorithm, Inputs, Layout, Parameters
from ..losses import loss_of
from .deep import SidedOptions, deep, deep_tower, linear_part, sided_inputs


def wide_deep(options: SidedOptions, layout: Layout) -> Algorithm:
    """Learn a linear model and a network over a vector per slot, together; cross(a, b) in the query adds to the wide part.

    Source: Cheng et al., "Wide & Deep Learning for Recommender Systems", DLRS 2016.
    """
    seen = sided_inputs(options, layout, "wide_deep")
    tower = deep_tower(options, layout, "wide_deep", seen.width)

    def scores(parameters: Parameters, inputs: Inputs) -> jax.Array:
        x = seen.inputs(parameters, inputs)
        return linear_part(parameters, inputs, layout) + tower.apply(parameters, x, inputs.random)

    return deep(options, layout, tower.specs, scores, loss_of(options, layout.classes), "wide_deep", seen=seen)


WIDE_DEEP = Part("wide_deep", SidedOptions, wide_deep)
