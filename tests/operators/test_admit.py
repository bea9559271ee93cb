"""Admit: chances of every size."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

from xpsql.platform.operators.base import TableSpec
from xpsql.platform.operators.lifetimes.admit import AdmitOptions, admit
from xpsql.testing.operators import context

FEATURES = 1 << 16


@pytest.mark.parametrize(("probability", "occurrences"), [(1.0, 1), (0.3, 2), (1e-7, 1 << 20)])
def test_a_feature_is_admitted_by_the_chance_of_all_its_occurrences(probability: float, occurrences: int) -> None:
    admits = admit(AdmitOptions(probability=probability), TableSpec("weights", 1)).admit
    keys = jnp.asarray(np.random.default_rng(1).integers(0, 1 << 32, (FEATURES, 2)), jnp.uint32)
    known = context(FEATURES)._replace(keys=keys, count=jnp.full(FEATURES, occurrences, jnp.uint32))
    assert admits is not None
    share, expected = float(jnp.mean(admits({}, known))), 1 - (1 - probability) ** occurrences
    assert share == pytest.approx(expected, abs=4 * (expected * (1 - expected) / FEATURES) ** 0.5)
