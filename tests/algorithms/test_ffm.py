"""FFM against its definition as a sum over pairs of slots."""

from __future__ import annotations

import itertools

import jax.numpy as jnp
import numpy as np

from tests.algorithms.inputs import BATCH, LAYOUT, NUM_ROWS, features, random_inputs
from xpsql.algorithms.linear.ffm import FfmOptions, ffm

DIM = 3
SLOTS = (*LAYOUT.scalar, *LAYOUT.bags, *LAYOUT.continuous, "picture")


def test_scores_are_the_sum_over_features_and_pairs_of_different_slots() -> None:
    algorithm = ffm(FfmOptions(dim=DIM, pooling="sum"), LAYOUT)
    assert {table.name: table.dim for table in algorithm.tables} == {"weights": 1, "vectors": len(SLOTS) * DIM}
    random, inputs = np.random.default_rng(1), random_inputs()
    weights = random.normal(size=(NUM_ROWS, 1)).astype(np.float32)
    vectors = random.normal(size=(NUM_ROWS, len(SLOTS), DIM)).astype(np.float32)
    rows = {"weights": jnp.asarray(weights), "vectors": jnp.asarray(vectors.reshape(NUM_ROWS, -1))}
    found = algorithm.scores(rows, inputs)
    for example in range(BATCH):
        own = features(inputs, example)
        score = weights[15, 0] + sum(weights[f.row, 0] * f.value for f in own)
        for f, g in itertools.combinations(own, 2):
            if f.slot != g.slot:
                score += vectors[f.row, SLOTS.index(g.slot)] @ vectors[g.row, SLOTS.index(f.slot)] * f.value * g.value
        np.testing.assert_allclose(found[example, 0], score, rtol=1e-4, atol=1e-4)
