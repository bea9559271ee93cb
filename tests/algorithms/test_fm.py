"""FM against its definition as a sum over pairs."""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import numpy as np

from tests.algorithms.inputs import BATCH, LAYOUT, NUM_ROWS, features, random_inputs
from xpsql.algorithms.layers.initial import uniform
from xpsql.algorithms.layers.long_vectors import LONG
from xpsql.algorithms.linear.fm import FmOptions, fm

DIM = 3


def test_scores_are_the_sum_over_features_and_pairs() -> None:
    random = np.random.default_rng(1)
    weights = random.normal(size=(NUM_ROWS, 1)).astype(np.float32)
    vectors = random.normal(size=(NUM_ROWS, DIM)).astype(np.float32)
    inputs = random_inputs()
    algorithm = fm(FmOptions(dim=DIM, pooling="sum"), LAYOUT)
    found = algorithm.scores({"weights": jnp.asarray(weights), "vectors": jnp.asarray(vectors)}, inputs)
    for example in range(BATCH):
        own = features(inputs, example)
        score = weights[15, 0] + sum(weights[f.row, 0] * f.value for f in own)
        score += sum(vectors[f.row] @ vectors[g.row] * f.value * g.value for f, g in itertools.combinations(own, 2))
        np.testing.assert_allclose(found[example, 0], score, rtol=1e-4, atol=1e-4)


def test_long_vectors_meet_each_other() -> None:
    random, inputs = np.random.default_rng(1), random_inputs()
    weights, vectors, long = (jnp.asarray(random.normal(size=(NUM_ROWS, dim)), jnp.float32) for dim in (1, DIM, 2))
    both = fm(FmOptions(dim=DIM, long_dim=2), LAYOUT).scores({"weights": weights, "vectors": vectors, LONG: long}, inputs)
    joined = {"weights": weights, "vectors": jnp.concatenate([vectors, long], axis=1)}
    np.testing.assert_allclose(both, fm(FmOptions(dim=DIM + 2), LAYOUT).scores(joined, inputs), rtol=1e-4, atol=1e-4)


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
