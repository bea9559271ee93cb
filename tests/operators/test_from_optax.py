"""Optimizers through optax: equal to optax on the dense array, and refused where rows cannot be kept apart."""

from __future__ import annotations

from functools import cache, partial

import jax
import numpy as np
import optax
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from tests.cases import lengthy
from tests.operators.examples import make
from xpsql.platform.operators.base import push
from xpsql.platform.operators.chains import chain
from xpsql.platform.operators.from_optax import check_per_row, from_optax
from xpsql.testing.operators import DIM, SEED, TABLE, context, initial_weights, keys, new_rows

ROWS, STEPS = 4, 4
BUILT_IN = {
    "sgd": optax.sgd(0.05),
    "momentum": optax.sgd(0.01, momentum=0.9),
    "adagrad": optax.adagrad(0.05, initial_accumulator_value=0.1, eps=1e-7),
    "rmsprop": optax.rmsprop(0.001, decay=0.9, eps=1e-8),
    "adam": optax.adam(0.001),
    "adamw": optax.adamw(0.001, weight_decay=1e-4),
    "lion": optax.lion(1e-4, weight_decay=0.0),
}
OTHERS = {
    "yogi": optax.yogi(0.01),
    "amsgrad": optax.amsgrad(0.01),
    "clipped": optax.chain(optax.clip(0.5), optax.trace(0.9), optax.scale(-0.1)),
    "scheduled": optax.adam(optax.exponential_decay(0.1, 2, 0.5)),
    "accumulating": optax.MultiSteps(optax.adam(0.1), 2).gradient_transformation(),
}
REFUSED = {
    "clip_by_global_norm": optax.chain(optax.clip_by_global_norm(1e6), optax.sgd(0.1)),
    "lamb": optax.lamb(0.1),
    "lars": optax.lars(0.1),
    "novograd": optax.novograd(0.1),
    "sm3": optax.sm3(0.1),
    "adafactor": optax.adafactor(0.1),
    "factored": optax.adafactor(0.1, multiply_by_parameter_scale=False, clipping_threshold=None),
    "apply_if_finite": optax.apply_if_finite(optax.sgd(0.1), 3),
    "adaptive_grad_clip": optax.chain(optax.adaptive_grad_clip(0.1), optax.sgd(0.1)),
}
ALL = BUILT_IN | OTHERS

Gradients = NDArray[np.float32]


@cache
def compiled(name: str):  # type: ignore[no-untyped-def]
    """Return the chain of this optimizer, its push and optax's own update, compiled once."""
    optimizer = chain(make(name) if name in BUILT_IN else from_optax(OTHERS[name], TABLE, name))
    return optimizer, jax.jit(partial(push, optimizer)), jax.jit(ALL[name].update)


def assert_equals_optax(name: str, gradients: Gradients, present: NDArray[np.bool_]) -> None:
    """Push the rows present in each step; compare each row to optax run on that row's gradients alone."""
    optimizer, run, update = compiled(name)
    rows = new_rows(optimizer, keys(ROWS))
    start = np.asarray(initial_weights(SEED, keys(ROWS)))
    for step in range(STEPS):
        stored, _ = run(rows, gradients[step], context(ROWS))
        kept = {n: np.where(present[step][:, None], v, rows[n]) for n, v in stored.items()}
        rows = {**rows, **kept}
    for row in range(ROWS):
        w, state = start[row], ALL[name].init(start[row])
        for step in np.flatnonzero(present[:, row]):
            updates, state = update(gradients[step, row], state, w)
            w = w + updates
        np.testing.assert_allclose(rows["w"][row], w, rtol=1e-5, atol=1e-6)


drawn_gradients = arrays(np.float32, (STEPS, ROWS, DIM), elements=st.floats(-4, 4, width=32, allow_subnormal=False))


@lengthy
@pytest.mark.parametrize("name", ALL)
@settings(max_examples=8, deadline=None, derandomize=True)
@given(gradients=drawn_gradients, present=arrays(np.bool_, (STEPS, ROWS)))
def test_a_key_seen_in_some_batches_equals_optax_on_its_gradients_alone(
    name: str, gradients: Gradients, present: NDArray[np.bool_]
) -> None:
    assert_equals_optax(name, gradients, present)


@lengthy
@pytest.mark.parametrize("name", ALL)
@settings(max_examples=8, deadline=None, derandomize=True)
@given(gradients=drawn_gradients)
def test_keys_seen_in_every_batch_equal_optax_on_the_dense_array(name: str, gradients: Gradients) -> None:
    optimizer, run, update = compiled(name)
    rows = new_rows(optimizer, keys(ROWS))
    w = np.asarray(initial_weights(SEED, keys(ROWS)))
    state = ALL[name].init(w)
    for gradient in gradients:
        stored, _ = run(rows, gradient, context(ROWS))
        rows = {**rows, **stored}
        updates, state = update(gradient, state, w)
        w = w + updates
    np.testing.assert_allclose(rows["w"], w, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", BUILT_IN)
def test_the_optimizers_of_this_package_pass_the_check_that_others_have_to(name: str) -> None:
    check_per_row(BUILT_IN[name], name)


@lengthy
@pytest.mark.parametrize("name", REFUSED)
def test_a_transformation_that_mixes_rows_is_refused_with_the_reason(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} cannot be kept per row: its update of a row depends on other rows"):
        from_optax(REFUSED[name], TABLE, name)


def test_a_transformation_that_needs_the_loss_is_refused_with_the_reason() -> None:
    with pytest.raises(ValueError, match=r"polyak cannot be kept per row: .*'value'.*Take a transformation"):
        from_optax(optax.polyak_sgd(), TABLE, "polyak")


def test_random_state_is_refused() -> None:
    with pytest.raises(ValueError, match="noise cannot be kept per row: its state holds key"):
        from_optax(optax.add_noise(0.1, 0.5, key=jax.random.key(0)), TABLE, "noise")


def test_columns_bear_the_names_of_the_states_fields() -> None:
    assert {n: c.dim for n, c in make("adam").columns.items()} == {"w": DIM, "adam_count": 1, "adam_mu": DIM, "adam_nu": DIM}
    scheduled = from_optax(OTHERS["scheduled"], TABLE, "adam").columns
    assert list(scheduled) == ["w", "adam_count", "adam_mu", "adam_nu", "adam_count_2"]


def test_a_new_rows_state_starts_as_optax_says() -> None:
    rows = new_rows(chain(make("adagrad")), keys(ROWS))
    np.testing.assert_array_equal(rows["adagrad_sum_of_squares"], np.full((ROWS, DIM), 0.1, np.float32))
    np.testing.assert_array_equal(rows["w"], initial_weights(SEED, keys(ROWS)))


def test_a_count_stays_at_two_to_the_24_when_it_gets_there() -> None:
    optimizer, run, _ = compiled("adam")
    rows = {**new_rows(optimizer, keys(ROWS)), "adam_count": np.full((ROWS, 1), 2**24 - 1, np.float32)}
    for _ in range(3):
        stored, _ = run(rows, np.ones((ROWS, DIM), np.float32), context(ROWS))
        rows = {**rows, **stored}
    np.testing.assert_array_equal(rows["adam_count"], np.full((ROWS, 1), 2**24, np.float32))
