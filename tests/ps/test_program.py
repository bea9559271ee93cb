"""A program gets what was put into its arrays, whatever their types, and nothing else is passed."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

from xpsql.platform.ps._native import Arguments, Layout
from xpsql.platform.ps.compiled.program import Given, Inputs, Program

INPUTS: Inputs = {
    "@mask": ("bool", ()),
    "@now": ("uint32", None),
    "@rate": ("float32", None),
    "@keys": ("uint32", (2,)),
    "count": ("uint32", ()),
    "slot": ("uint16", ()),
    "z": ("float32", (1,)),
    "v": ("float32", (5,)),
    "@gradients": ("float32", (3,)),
}
N, SIZE = 50, 64


def values() -> dict[str, Any]:
    """Return values of all inputs; numbers use all their bits."""
    random = np.random.default_rng(1)
    rows = {name: (dtype, shape) for name, (dtype, shape) in INPUTS.items() if shape is not None}
    made = {name: random.integers(0, 2**32, (N, *shape)).astype(dtype) for name, (dtype, shape) in rows.items()}
    return {**made, "@now": 4_000_000_000, "@rate": 0.3}


def run(names: set[str]) -> tuple[Program, Arguments, dict[str, jax.Array]]:
    """Return a program that returns these inputs, its prepared memory, and what it returned of `values`."""

    def chosen(given: Given) -> dict[str, jax.Array]:
        return {name: given[name] * 1 for name in names}

    program = Program(chosen, INPUTS, ("@gradients",))
    given, all_of_them = program.prepared(SIZE), values()
    given.put(all_of_them)
    brought = np.zeros((SIZE, 3), np.float32)
    brought[:N] = all_of_them["@gradients"]
    return program, given, program(given, {"@gradients": brought})


SOME = [{*INPUTS}, {"v"}, {"@now"}, {"z", "count"}, {"@gradients", "@rate"}, {"slot"}, {"@mask"}]


@pytest.mark.parametrize("names", SOME, ids=lambda names: ",".join(sorted(names)) or "none")
def test_a_program_gets_what_was_put_with_zeros_after_the_last_row(names: set[str]) -> None:
    program, given, found = run(names)
    assert program.needs == names
    own = {name for name in INPUTS if name in given}
    assert own == names - {"@gradients"} or own == {"@now", "@mask"}
    for name, value in values().items():
        if name not in names:
            continue
        got = np.asarray(found[name])
        assert got.dtype == (np.int32 if name == "@mask" else INPUTS[name][0])
        if INPUTS[name][1] is None:
            assert got == np.dtype(INPUTS[name][0]).type(value)
        else:
            np.testing.assert_array_equal(got[:N], value)
            assert not got[N:].any()


def test_what_no_result_depends_on_is_zero_and_of_the_size_of_the_rest() -> None:
    def function(given: Given) -> jax.Array:
        z: jax.Array = given["z"]
        assert given["v"].shape == (len(z), 5)
        return z + 1

    program = Program(function, INPUTS)
    given = program.prepared(SIZE)
    given.put(values())
    assert {name for name in INPUTS if name in given} == {"z"}
    assert program(given).shape == (SIZE, 1)


def test_no_rows_are_zeros() -> None:
    arguments = Arguments(Layout([], [("z", "float32", ())], [("v", "float32", (5,)), ("slot", "uint16", ())]), 4)
    arguments.put({"z": np.ones(4, np.float32), "v": np.ones((4, 5), np.float32), "slot": np.ones(4, np.uint16)})
    arguments.put({"z": None, "v": np.zeros((0, 5), np.float32)})
    assert not arguments["z"].any()
    assert not arguments["v"].any()
    assert arguments["slot"].all()


def test_arguments_refuse_what_is_not_as_declared() -> None:
    arguments = Arguments(Layout([("now", "uint32", ())], [("z", "float32", ())], [("v", "float32", (5,))]), 4)
    with pytest.raises(ValueError, match=r"input z has rows of 4 bytes, at most 4 of them; got 20 bytes for 5"):
        arguments.put({"z": np.zeros(5, np.float32)})
    with pytest.raises(ValueError, match=r"input v has rows of 20 bytes, at most 4 of them; got 24 bytes for 2"):
        arguments.put({"v": np.zeros((2, 3), np.float32)})
    with pytest.raises(TypeError, match="now must be a number of its type"):
        arguments.put({"now": -1})
    with pytest.raises(TypeError):
        arguments.put({"z": "text"})
    with pytest.raises(KeyError, match="w"):
        arguments["w"]
    with pytest.raises(ValueError, match="input v is no word"):
        Layout([], [("v", "float32", (5,))], [])
    with pytest.raises(TypeError, match="got int64"):
        Layout([], [], [("v", "int64", ())])
