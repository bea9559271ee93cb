"""The contract of operators: pure, composable transforms on rows and gradients inside the server.

A push gathers the rows of its keys, runs the table's chain as one jitted function, and scatters the result. For a chain
(o1, ..., ok) whose last element is the optimizer, a push is

    gradients, rows = o1.before(gradients, rows, context); ...; ok.before(...)     # ok moves the weights
    rows = ok.after(old, rows, context); ...; o1.after(old, rows, context)         # reverse order

and a pull is `rows = o1.read(rows, context); ...; ok.read(...)`, after which rows["w"] holds the weights.

Shapes, with n the padded number of keys of a push:
    gradients            float32[n, dim]
    float columns        float32[n, Column.dim]
    integer statistics   uint32[n] (count, updates, shows, clicks, last_seen), as they were before this push; read-only
    context fields       [n] each, `keys` [n, 2]
Entries where `context.valid` is False are padding: whatever is computed there is thrown away, but it must not influence
a valid entry.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import jax

Rows = Mapping[str, jax.Array]


class Context(NamedTuple):
    """What an operator may know about the keys of one push or pull, beside their rows.

    Attributes:
        valid: bool[n]; False marks padding.
        keys: uint32[n, 2], low and high half of each key; for randomness that is a function of the key.
        count: uint32[n], occurrences of the key in this push (0 in a pull).
        shows, clicks: uint32[n], examples and positive examples of the key in this push (0 in a pull).
        updates: uint32[n], updates the row has had before this push.
        staleness: uint32[n], updates of the row since it was pulled (0 in a pull).
        age_seconds: float32[n], newest TIME pushed minus the row's last_seen, never negative; 0 for a new row.
        new: bool[n], True where this push creates the row.
    """

    valid: jax.Array
    keys: jax.Array
    count: jax.Array
    shows: jax.Array
    clicks: jax.Array
    updates: jax.Array
    staleness: jax.Array
    age_seconds: jax.Array
    new: jax.Array


class Column(NamedTuple):
    """A named float32 column of a row.

    Attributes:
        dim: floats per row.
        init: (seed, keys uint32[n, 2]) -> float32[n, dim], a pure function of the key; None: zeros.
        transient: not stored: False/0 at the start of each push, summed over valid entries after it into the push's
            report (`violations`). A transient column is how an operator counts.
    """

    dim: int
    init: Callable[[int, jax.Array], jax.Array] | None = None
    transient: bool = False


class TableSpec(NamedTuple):
    """What an algorithm asks of a table: its name, floats per row, and how new weights start (None: zeros)."""

    name: str
    dim: int
    init: Callable[[int, jax.Array], jax.Array] | None = None


def keep_gradients(gradients: jax.Array, rows: Rows, context: Context) -> tuple[jax.Array, Rows]:
    return gradients, rows


def keep_new(old: Rows, new: Rows, context: Context) -> Rows:
    return new


def keep_rows(rows: Rows, context: Context) -> Rows:
    return rows


class Operator(NamedTuple):
    """One element of a chain. Every field but `columns` has a neutral default.

    Attributes:
        columns: the columns it adds to the row.
        before: (gradients, rows, context) -> (gradients, rows), in chain order; the optimizer's moves the weights.
        after: (old_rows, new_rows, context) -> new_rows, in reverse order.
        read: (rows, context) -> rows, in chain order: what a pull sees.
        optimizer: True for the operator that ends a chain.
    """

    columns: Mapping[str, Column]
    before: Callable[[jax.Array, Rows, Context], tuple[jax.Array, Rows]] = keep_gradients
    after: Callable[[Rows, Rows, Context], Rows] = keep_new
    read: Callable[[Rows, Context], Rows] = keep_rows
    optimizer: bool = False


def chain(*operators: Operator) -> Operator:
    """Compose operators into one, in the order given; the last one is the optimizer.

    Raises:
        ValueError: no optimizer at the end, one before the end, or two operators that declare the same column differently.
    """
    if not operators or not operators[-1].optimizer:
        raise ValueError("a chain ends with an optimizer (ftrl, ...)")
    if any(o.optimizer for o in operators[:-1]):
        raise ValueError("only the last operator of a chain may be an optimizer; a step after it would not be learned from")
    columns: dict[str, Column] = {}
    for operator in operators:
        for name, column in operator.columns.items():
            if columns.setdefault(name, column) != column:
                raise ValueError(f"two operators of the chain declare the column {name!r} differently")

    def before(gradients: jax.Array, rows: Rows, context: Context) -> tuple[jax.Array, Rows]:
        for operator in operators:
            gradients, rows = operator.before(gradients, rows, context)
        return gradients, rows

    def after(old: Rows, new: Rows, context: Context) -> Rows:
        for operator in reversed(operators):
            new = operator.after(old, new, context)
        return new

    def read(rows: Rows, context: Context) -> Rows:
        for operator in operators:
            rows = operator.read(rows, context)
        return rows

    return Operator(columns, before, after, read, optimizer=True)
