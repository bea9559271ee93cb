"""FM against its definition as a sum over pairs."""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import numpy as np

from xpsql.algorithms.base import Inputs, Layout
from xpsql.algorithms.fm import FmOptions, fm
from xpsql.algorithms.initial import uniform

NUM_ROWS, DIM, BATCH = 20, 3, 4


def random_inputs() -> Inputs:
    random = np.random.default_rng(0)
    return Inputs._make(
        (
            np.vstack([random.integers(0, 10, (2, BATCH)), np.full((1, BATCH), 15)]).astype(np.int32),
            random.integers(10, 14, 6).astype(np.int32),
            np.array([0, 0, 1, 3, 3, 3], np.int32),
            np.zeros(6, np.int32),
            random.random(6).astype(np.float32),
            random.normal(size=(BATCH, 2)).astype(np.float32),
            np.array([16, 17], np.int32),
            np.zeros((BATCH, 1), np.float32),
            np.ones(BATCH, np.float32),
        )
    )


def test_scores_are_the_sum_over_features_and_pairs() -> None:
    random = np.random.default_rng(1)
    weights = random.normal(size=(NUM_ROWS, 1)).astype(np.float32)
    vectors = random.normal(size=(NUM_ROWS, DIM)).astype(np.float32)
    inputs = random_inputs()
    found = fm(FmOptions(dim=DIM), Layout()).scores({"weights": jnp.asarray(weights), "vectors": jnp.asarray(vectors)}, inputs)
    for example in range(BATCH):
        features = [(int(line[example]), 1.0) for line in inputs.scalar[:-1]]
        features += [
            (int(i), float(w))
            for i, e, w in zip(inputs.bag_index, inputs.bag_example, inputs.bag_weight, strict=True)
            if e == example
        ]
        features += [(int(i), float(x)) for i, x in zip(inputs.dense_index, inputs.dense[example], strict=True)]
        score = weights[15, 0] + sum(weights[i, 0] * x for i, x in features)
        score += sum(vectors[i] @ vectors[j] * x * y for (i, x), (j, y) in itertools.combinations(features, 2))
        np.testing.assert_allclose(found[example, 0], score, rtol=1e-4, atol=1e-4)


def test_initial_vectors_are_uniform_and_a_function_of_key_and_seed() -> None:
    keys = jnp.asarray(np.random.default_rng(2).integers(0, 2**32, (4000, 2), np.uint32))
    init = uniform(0.5, 4)
    values = np.asarray(jax.jit(init, static_argnums=0)(7, keys))
    assert values.shape == (4000, 4)
    np.testing.assert_allclose(values.mean(0), 0, atol=0.05)
    np.testing.assert_allclose(values.std(0), 0.5, atol=0.02)
    assert np.abs(values).max() <= 0.5 * 3**0.5
    np.testing.assert_allclose(np.corrcoef(values.T) - np.eye(4), 0, atol=0.06)
    np.testing.assert_allclose(np.asarray(init(7, keys[10:20])), values[10:20], rtol=1e-5, atol=1e-6)
    assert not np.allclose(init(8, keys), values)
