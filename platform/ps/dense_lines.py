"""Operators on dense parameters: the lines of a parameter are rows to them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ..operators.base import Context, DenseSpec, Operator, Rows, TableSpec
from .messages import Array

STATE = "state"
MOST = 2**32 - 1


class Lived(NamedTuple):
    """What an operator knows about a parameter at an update: its age and staleness.

    Attributes:
        updates: how many updates it has had, uint32[].
        staleness: how many of these updates came after it was pulled, uint32[].
        age_seconds: TIME since the last of them, float32[].
        pulled: its values as they were pulled.
    """

    updates: Any
    staleness: Any
    age_seconds: Any
    pulled: Any


def as_table(spec: DenseSpec) -> TableSpec:
    """Return the table of a parameter's lines: of the last axis, or of its one number."""
    return TableSpec(spec.name, spec.shape[-1] if spec.shape else 1, dense=True)


def operated(
    operators: Sequence[Operator],
    update: Callable[..., tuple[Any, Any]],
    values: jax.Array,
    state: Any,
    gradient: Array,
    lived: Lived,
) -> tuple[jax.Array, Any, dict[str, jax.Array]]:
    """Apply one update of a parameter whose lines are rows of operators, as are the lines of its state's arrays of that shape.

    Returns:
        The values, the state, and the sums of the transient columns.
    """
    shape = values.shape
    lines = (-1, shape[-1] if shape else 1)
    leaves, structure = jax.tree.flatten(state)
    columns = {f"{STATE}_{i}": i for i, leaf in enumerate(leaves) if leaf.shape == shape and leaf.dtype == values.dtype}
    w = values.reshape(lines)
    counters = {name: c for one in operators for name, c in one.columns.items() if c.transient}
    zeros, most = jnp.zeros(len(w), jnp.uint32), jnp.full(len(w), MOST, jnp.uint32)
    updates = jnp.full(len(w), lived.updates, jnp.uint32)
    statistics = {"count": most, "updates": updates, "shows": zeros, "clicks": zeros, "last_seen": zeros}
    transient = {name: jnp.zeros((len(w), column.dim)) for name, column in counters.items()}
    old: Rows = {"w": w, **statistics, **transient, **{name: leaves[i].reshape(lines) for name, i in columns.items()}}
    context, gradients = lines_context(w, lived), jnp.asarray(gradient).reshape(lines)
    for operator in operators:
        old = operator.read(old, context)
    rows = old
    for operator in operators:
        gradients, rows = operator.before(gradients, rows, context)
    step, moved = update(gradients.reshape(shape), state, rows["w"].reshape(shape))
    leaves = jax.tree.leaves(moved)
    rows = {**rows, "w": rows["w"] + jnp.asarray(step).reshape(lines)}
    rows = {**rows, **{name: leaves[i].reshape(lines) for name, i in columns.items()}}
    for operator in reversed(operators):
        rows = operator.after(old, rows, context)
    for name, i in columns.items():
        leaves[i] = rows[name].reshape(shape)
    return rows["w"].reshape(shape), jax.tree.unflatten(structure, leaves), {name: rows[name].sum() for name in counters}


def lines_context(w: jax.Array, lived: Lived) -> Context:
    """Return what operators know of the lines of a parameter, which are in every push."""
    n = len(w)
    none, one = jnp.zeros(n, jnp.uint32), jnp.ones(n, jnp.uint32)
    false, age = jnp.zeros(n, jnp.bool_), jnp.full(n, lived.age_seconds, jnp.float32)
    return Context(
        valid=~false,
        keys=jnp.zeros((n, 2), jnp.uint32),
        count=one,
        shows=one,
        clicks=none,
        updates=jnp.full(n, lived.updates, jnp.uint32),
        staleness=jnp.full(n, lived.staleness, jnp.uint32),
        pulled=jnp.asarray(lived.pulled).reshape(w.shape),
        age_seconds=age,
        idle_seconds=age,
        new=false,
        slot=none,
        draw=jnp.zeros(4, jnp.uint32),
        base_rate=jnp.zeros((), jnp.float32),
        examples=jnp.zeros((), jnp.float32),
        pushed=jnp.zeros((), jnp.float32),
        rate=jnp.ones((), jnp.float32),
    )
