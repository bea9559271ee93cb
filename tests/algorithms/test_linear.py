"""The linear part against its definition."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from tests.algorithms.inputs import BATCH, NUM_ROWS, random_inputs
from tests.cases import lengthy
from xpsql.algorithms.linear.scores import MOST_UNROLLED, linear_scores
from xpsql.algorithms.losses import logloss, squared


def test_scores_are_the_sum_of_weights_times_values() -> None:
    weights = np.random.default_rng(3).normal(size=(NUM_ROWS, 1)).astype(np.float32)
    inputs = random_inputs()
    found = linear_scores(jnp.asarray(weights), inputs)
    for example in range(BATCH):
        mine = inputs.bags.example == example
        score = sum(weights[line[example], 0] for line in inputs.scalar)
        score += (weights[inputs.bags.rows[mine], 0] * inputs.bags.weight[mine]).sum()
        score += (weights[inputs.dense_index, 0] * inputs.dense[example]).sum()
        np.testing.assert_allclose(found[example, 0], score, rtol=1e-5)


@lengthy
def test_many_classes_have_the_scores_and_gradients_of_each_alone_by_a_program_of_one_size() -> None:
    inputs, weights = random_inputs(), np.random.default_rng(4).normal(size=(NUM_ROWS, 40)).astype(np.float32)

    def summed(weights: jax.Array) -> tuple[jax.Array, jax.Array]:
        found = linear_scores(weights, inputs)
        return (found * found).sum(), found

    gradient, found = jax.grad(summed, has_aux=True)(jnp.asarray(weights))
    for label in range(40):
        own, alone = jax.grad(summed, has_aux=True)(jnp.asarray(weights[:, label : label + 1]))
        np.testing.assert_allclose(found[:, label], alone[:, 0], rtol=1e-5)
        np.testing.assert_allclose(gradient[:, label], own[:, 0], rtol=1e-5)
    lines = {str(jax.make_jaxpr(summed)(weights[:, :count])).count("\n") for count in (MOST_UNROLLED + 1, 40)}
    assert len(lines) == 1


def test_losses_follow_their_definitions_and_stay_finite() -> None:
    scores, labels = jnp.array([-100.0, -1.0, 0.0, 2.0, 100.0]), jnp.array([1.0, 0.0, 1.0, 1.0, 0.0])
    p = 1 / (1 + np.exp(-np.asarray(scores, np.float64)))
    expected = [100.0, -np.log(1 - p[1]), -np.log(p[2]), -np.log(p[3]), 100.0]
    np.testing.assert_allclose(logloss(scores, labels), expected, rtol=1e-5)
    np.testing.assert_allclose(squared(jnp.array([3.0]), jnp.array([1.0])), [2.0])
