"""regularize (coupled = true): the penalty's gradient goes through the optimizer."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

from xpsql.platform.operators.adam import AdamOptions, adam
from xpsql.platform.operators.base import Operator, TableSpec, push
from xpsql.platform.operators.chains import chain
from xpsql.platform.operators.regularize import RegularizeOptions, regularize
from xpsql.platform.operators.sgd import SgdOptions, sgd
from xpsql.testing.operators import context, new_rows

TABLE = TableSpec("weights", 2)
GRADIENTS = np.array([[0.5, -1], [0, 2], [1, 1]], np.float32)
WEIGHTS = np.array([[1, -2], [0.5, 0], [3, 1]], np.float32)


def after(optimizer: Operator, gradients: np.ndarray, *options: RegularizeOptions) -> np.ndarray:
    """Return the weights after an update of rows that have WEIGHTS."""
    one = chain(*(regularize(own, TABLE) for own in options), optimizer)
    rows = {name: jnp.asarray(values) for name, values in new_rows(one, np.arange(3, dtype=np.uint64)).items()}
    rows["w"] = jnp.asarray(WEIGHTS)
    return np.asarray(push(one, rows, jnp.asarray(gradients), context(3)._replace(pulled=jnp.zeros((3, 2))))[0]["w"])


@pytest.mark.parametrize("optimizer", [sgd(SgdOptions(learning_rate=0.1), TABLE), adam(AdamOptions(), TABLE)])
def test_a_coupled_penalty_is_a_part_of_the_gradient(optimizer: Operator) -> None:
    found = after(optimizer, GRADIENTS, RegularizeOptions("l2", 0.3, coupled=True))
    np.testing.assert_allclose(found, after(optimizer, GRADIENTS + np.float32(0.3) * WEIGHTS), rtol=1e-6)


def test_its_strength_follows_how_often_a_feature_occurred() -> None:
    optimizer = sgd(SgdOptions(learning_rate=0.1), TABLE)
    options = RegularizeOptions("l2", 0.0, by_frequency=((2**32 - 1, 0.3),), coupled=True)
    found = after(optimizer, GRADIENTS, options)
    np.testing.assert_allclose(found, WEIGHTS - 0.1 * (GRADIENTS + 0.3 * WEIGHTS), rtol=1e-5)
