"""Calls out of compiled programs into Python."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from xpsql.algorithms.bridges.callback import Callback

FLOATS = jax.ShapeDtypeStruct((3,), jnp.float32)


class Scaling(Callback):
    """Gives values that are there times `what`, and how many these are."""

    def answer(self, what: int, given: Sequence[Any], into: Sequence[Any]) -> None:
        values, there = given
        if what < 0:
            raise ValueError("what is below zero")
        assert not values.flags.writeable
        into[0][...] = np.where(there, values * what, 0)
        into[1][...] = there.sum()


def test_a_program_gets_what_python_computes_and_its_errors() -> None:
    scaling, there = Scaling(), np.array([True, False, True])

    def scaled(what: int, values: Any) -> Any:
        return scaling.called(what, (FLOATS, {"there": jax.ShapeDtypeStruct((), jnp.int32)}), values, {"there": there})

    values, found = jax.jit(lambda values: scaled(2, values + 1))(jnp.arange(3.0))
    assert values.tolist() == [2, 0, 6]
    assert found["there"] == 2
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"test_callback.py(.|\n)*ValueError: what is below zero"):
        jax.block_until_ready(jax.jit(lambda values: scaled(-1, values))(jnp.arange(3.0)))


def test_it_ends_with_the_programs_that_call_it() -> None:
    scaling = Scaling()
    gone = weakref.ref(scaling)
    del scaling
    assert gone() is None
