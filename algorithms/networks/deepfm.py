"""DeepFM: a factorization machine beside a network over the same vectors."""

from __future__ import annotations

import jax

from ...platform.options import Part
from ..base import Algorithm, Inputs, Layout, Parameters
from ..layers.dense_layers import Layer
from ..layers.pooling import slot_sums
from ..linear.interactions import bi_interaction
from ..losses import loss_of
from .deep import SidedOptions, deep, deep_tower, linear_part, sided_inputs

FIRST_PAIRS = 201  # the number of the layer of pairs, so that its initial values differ from hidden layers'


def deepfm(options: SidedOptions, layout: Layout) -> Algorithm:
    """Learn weights, the inner products of slots' vectors, and a network over the same vectors, together.

        score = b + sum of weights + sum over pairs of slots of <v_i, v_j> + network(vectors, dense values)

    With a label of classes, a linear layer over the elements of the products of pairs replaces the sum, which would be the
    same for all classes.

    Source: Guo et al., "DeepFM: A Factorization-Machine based Neural Network for CTR Prediction", IJCAI 2017.
    """
    seen = sided_inputs(options, layout, "deepfm")
    tower = deep_tower(options, layout, "deepfm", seen.width)
    classes = Layer("pairs_output", FIRST_PAIRS, options.dim, layout.classes, "linear") if layout.classes else None

    def scores(parameters: Parameters, inputs: Inputs) -> jax.Array:
        both = bi_interaction(*slot_sums(parameters["vectors"], inputs, layout, "sum"))
        pairs = both.sum(axis=1, keepdims=True) if classes is None else classes.apply(parameters, both, None)
        x = seen.inputs(parameters, inputs)
        return linear_part(parameters, inputs, layout) + pairs + tower.apply(parameters, x, inputs.random)

    specs = tower.specs if classes is None else (*tower.specs, *classes.specs())
    return deep(options, layout, specs, scores, loss_of(options, layout.classes), "deepfm", seen=seen)


DEEPFM = Part("deepfm", SidedOptions, deepfm)
