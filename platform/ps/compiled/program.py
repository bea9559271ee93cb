"""A jitted function of named arrays, and the memory in which a call passes them.

Passing an array to a compiled program costs as much as computing on thousands of rows, so inputs of four bytes a row share one
array, one after another, after the numbers. Wider ones stand apart, since programs work longer on parts of an array, which
costs more where there is much of it. That memory is filled in native code, since at hundreds of shards a batch is hundreds of
calls with few rows each.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._native import Arguments, Layout

PROBE_ROWS = 64
WORD_BYTES = 4
WORDS = "@words"  # the array that has the others

Given = Mapping[str, Any]
Inputs = dict[str, tuple[str, tuple[int, ...] | None]]
NOTHING: Given = MappingProxyType({})


class Program:
    """A jitted function of named arrays that all have the padded number of rows first, or are numbers.

    Args:
        function: mapping of names to arrays -> a pytree.
        inputs: every name with its dtype and the shape of one row; None for a number.
        brought: names of inputs that callers have in memory of their own.
        beside: names of inputs that callers read from the memory of a call, whether the function needs them or not.

    Attributes:
        inputs: as given.
        needs: the names that the result depends on; calls pass just these.
    """

    def __init__(
        self, function: Callable[[Given], Any], inputs: Inputs, brought: Collection[str] = (), beside: Collection[str] = ()
    ) -> None:
        self.inputs = inputs
        self.needs = used(function, {name: probe(kind, shape) for name, (kind, shape) in inputs.items()})
        needed = {name: (np.dtype(kind), shape) for name, (kind, shape) in inputs.items() if name in self.needs}
        rows = {name: (kind, shape) for name, (kind, shape) in needed.items() if shape is not None}
        own = {name: row for name, row in rows.items() if name not in brought}
        self._numbers = {name: kind for name, (kind, shape) in needed.items() if shape is None}
        self._together = {name: row for name, row in own.items() if row[0].itemsize * math.prod(row[1]) == WORD_BYTES}
        apart = {name: row for name, row in own.items() if name not in self._together}
        if not rows:  # at least one input must give the number of rows
            apart["@mask"] = (np.dtype(np.bool_), ())
        self._num_passed = 1 + len(apart)
        others = {name: (np.dtype(inputs[name][0]), inputs[name][1] or ()) for name in beside if name not in rows}
        self._layout = Layout(
            [(name, kind.name, ()) for name, kind in self._numbers.items()],
            [(name, kind.name, shape) for name, (kind, shape) in self._together.items()],
            [(name, kind.name, shape) for name, (kind, shape) in (*apart.items(), *others.items())],
        )
        self._brought = tuple(name for name in rows if name in brought)
        self._passed = (WORDS, *apart, *self._brought)
        self._run = jax.jit(lambda *arrays: function(self._complete(dict(zip(self._passed, arrays, strict=True)))))

    def prepared(self, size: int) -> Arguments:
        """Return memory to fill, for all that a call needs and callers do not bring, and for what they want beside it.

        Args:
            size: the padded number of rows.
        """
        return Arguments(self._layout, size)

    def __call__(self, given: Arguments, brought: Given = NOTHING) -> Any:
        """Run it on what `prepared` returned, filled, and on what callers bring; what it does not need is ignored."""
        return self._run(*given.arrays[: self._num_passed], *map(brought.__getitem__, self._brought))

    def _complete(self, given: Given) -> Given:
        """Return all inputs, zeros for what the result does not depend on."""
        words = given[WORDS]
        found = {name: values for name, values in given.items() if name != WORDS}
        at = len(self._numbers)
        size = (len(words) - at) // len(self._together) if self._together else len(next(iter(found.values())))
        for place, (name, kind) in enumerate(self._numbers.items()):
            found[name] = jax.lax.bitcast_convert_type(words[place], kind)
        for name, (kind, shape) in self._together.items():
            found[name] = jax.lax.bitcast_convert_type(words[at : at + size], kind).reshape(size, *shape)
            at += size
        for name, (dtype, row) in self.inputs.items():
            if name not in found:
                found[name] = jnp.zeros(() if row is None else (size, *row), dtype)
        return found


def probe(kind: str, shape: tuple[int, ...] | None) -> jax.ShapeDtypeStruct:
    whole = () if shape is None else (PROBE_ROWS, *shape)
    return jax.ShapeDtypeStruct(whole, np.dtype(kind))  # type: ignore[no-untyped-call]


def returned(function: Callable[[Given], jax.Array], inputs: Inputs) -> str | None:
    """Return the name of the input that a function returns as it is; None if it returns none."""
    probes = {name: probe(kind, shape) for name, (kind, shape) in inputs.items()}
    jaxpr = jax.make_jaxpr(function)(probes).jaxpr
    return next((name for name, var in zip(sorted(inputs), jaxpr.invars, strict=True) if var is jaxpr.outvars[0]), None)


def used(function: Callable[[Given], Any], inputs: Mapping[str, jax.ShapeDtypeStruct]) -> frozenset[str]:
    """Return the names of the inputs that the results of a function depend on."""
    jaxpr = jax.make_jaxpr(function)(dict(inputs)).jaxpr
    needed = {var for var in jaxpr.outvars if not hasattr(var, "val")}
    for equation in reversed(jaxpr.eqns):
        if needed & set(equation.outvars):
            needed |= {var for var in equation.invars if not hasattr(var, "val")}
    return frozenset(name for name, var in zip(sorted(inputs), jaxpr.invars, strict=True) if var in needed)
