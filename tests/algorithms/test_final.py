"""Factorised layers."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

from tests.cases import costly
from xpsql.algorithms import ALGORITHMS
from xpsql.algorithms.layers.batch_norm import EPSILON
from xpsql.algorithms.losses import LOGLOSS
from xpsql.algorithms.networks.final import FINAL, FinalOptions, distance, factorised
from xpsql.platform.errors import OptionError
from xpsql.testing import ALGORITHM_CHECKS, AlgorithmTrial, algorithms


def test_a_layer_multiplies_one_half_by_the_other_and_rectifies() -> None:
    random = np.random.default_rng(0)
    own = {"kernel": random.normal(size=(3, 4)), "bias": random.normal(size=4)}
    x = random.normal(size=(5, 3))
    z = x @ own["kernel"] + own["bias"]
    wanted = np.maximum(np.concatenate([z[:, :2], z[:, :2] * z[:, 2:]], axis=1), 0)
    parameters = {name: jnp.asarray(values, jnp.float32) for name, values in own.items()}
    np.testing.assert_allclose(factorised(parameters, jnp.asarray(x, jnp.float32), None), wanted, rtol=1e-4, atol=1e-5)
    moved = factorised({**parameters, "shift": jnp.ones(4)}, jnp.asarray(x, jnp.float32), lambda y: y / (1 + EPSILON))
    both = np.concatenate([z[:, :2], z[:, :2] * z[:, 2:]], axis=1)
    np.testing.assert_allclose(moved, np.maximum(both + 1, 0), rtol=1e-3, atol=1e-4)


@costly
@pytest.mark.parametrize("options", [{}, {"normalise": "none"}, {"blocks": 1}, {"dropout": 0.5}, {"booster": (8,)}])
def test_every_form_conforms(options: dict[str, object]) -> None:
    made = FinalOptions(dim=4, hidden=(8, 4), **options)  # type: ignore[arg-type]
    for check in ALGORITHM_CHECKS:
        if check is algorithms.learning_and_scoring_agree and made.normalise != "none":
            continue  # an update takes the batch's statistics, scoring the averages
        if check is algorithms.what_examples_have_in_common_may_come_once and made.dropout:
            continue
        check(AlgorithmTrial(FINAL, made))


def test_a_block_is_drawn_to_what_both_predict_and_no_further() -> None:
    whole, own = jnp.array([[1.0]]), jnp.linspace(-3, 3, 121)[:, None]
    at = own[int(jnp.argmin(distance(LOGLOSS, whole, own)[:, 0])), 0]
    assert float(at) == pytest.approx(1, abs=0.05)


@costly
def test_what_has_no_halves_is_refused() -> None:
    with pytest.raises(OptionError, match="even numbers of units"):
        FINAL.make(FinalOptions(hidden=(7,)), algorithms.LAYOUT)
    assert "final" in [part.name for part in ALGORITHMS]
