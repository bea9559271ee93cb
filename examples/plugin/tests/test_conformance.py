"""What xpsql holds algorithms and operators to, and the operator's formula."""

import jax.numpy as jnp
import numpy as np
import pytest
from xps_plugin.pooled import POOLED
from xps_plugin.smooth import SMOOTH, SmoothOptions

from xpsql.platform.operators.base import TableSpec
from xpsql.testing import ALGORITHM_CHECKS, OPERATOR_CHECKS, AlgorithmTrial, OperatorTrial


@pytest.fixture(scope="module")
def algorithm():
    return AlgorithmTrial(POOLED)


@pytest.fixture(scope="module")
def operator():
    return OperatorTrial(SMOOTH)


@pytest.mark.parametrize("check", ALGORITHM_CHECKS, ids=lambda check: check.__name__)
def test_pooled_conforms(algorithm, check):
    check(algorithm)


@pytest.mark.parametrize("activation", ["prelu", "dice", "gelu"])
def test_pooled_learns_with_activations(activation):
    trial = AlgorithmTrial(POOLED, POOLED.options(activation=activation))
    ALGORITHM_CHECKS[0](trial)
    assert ALGORITHM_CHECKS[0].__name__ == "shapes_are_kept"


@pytest.mark.parametrize("check", OPERATOR_CHECKS, ids=lambda check: check.__name__)
def test_smooth_conforms(operator, check):
    check(operator)


def test_smooth_follows_its_formula():
    rows = {"smooth_mean": jnp.array([[1.0, 2.0]])}
    made = SMOOTH.make(SmoothOptions(keep=0.75), TableSpec("weights", 2))
    gradients, rows = made.before(jnp.array([[5.0, -2.0]]), rows, None)
    np.testing.assert_allclose(gradients, [[2.0, 1.0]])
    np.testing.assert_allclose(rows["smooth_mean"], gradients)
