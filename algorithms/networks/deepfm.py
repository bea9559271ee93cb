"""DeepFM: a factorization machine beside a network over the same vectors."""

from __future__ import annotations

import jax

from ...platform.options import Part
from ..base import Algorithm, Inputs, Layout, Parameters
from ..layers.pooling import all_vectors
from ..linear.interactions import bi_interaction
from ..linear.scores import linear_scores
from ..losses import loss_of
from .deep import DeepOptions, deep, deep_tower, network_inputs


def deepfm(options: DeepOptions, layout: Layout) -> Algorithm:
    """Learn weights, the inner products of slots' vectors, and a network over the same vectors, together.

        score = b + sum of weights + sum over pairs of slots of <v_i, v_j> + network(vectors, dense values)

    Source: Guo et al., "DeepFM: A Factorization-Machine based Neural Network for CTR Prediction", IJCAI 2017.
    """
    tower = deep_tower(options, layout, "deepfm")

    def scores(parameters: Parameters, inputs: Inputs) -> jax.Array:
        pairs = bi_interaction(all_vectors(parameters["vectors"], inputs, layout, "sum")).sum(axis=1, keepdims=True)
        x = network_inputs(parameters, inputs, layout)
        return linear_scores(parameters["weights"], inputs) + pairs + tower.apply(parameters, x, inputs.random)

    return deep(options, layout, tower.specs, scores, loss_of(options), "deepfm")


DEEPFM = Part("deepfm", DeepOptions, deepfm)
