"""Embedding look-ups: rows of a matrix by index, and their sums over an example, with gradients.

XLA goes through them element by element on CPUs, and they are a large part of what sparse models cost. So on CPUs they are
custom calls, native/lookups.cpp; elsewhere the same in JAX, and everywhere what is traced under `portable`. Indices
int32[lines, batch] are in bounds. What is computed of lines that neighbouring examples have in common (`CommonLines`) is
computed once for each group of them, and spread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import jax
import jax.numpy as jnp

from ..shared_inputs import CommonLines, of_places
from . import _lookups

PREFIX = "xpsql_"
UNITS = 16  # the native product has as many columns, or twice as many, and so on

for name, call in _lookups.calls().items():
    jax.ffi.register_ffi_target(PREFIX + name, call, platform="cpu")

Saved = tuple[jax.Array, ...]
PLAIN: ContextVar[bool] = ContextVar("plain", default=False)


@contextmanager
def portable() -> Iterator[None]:
    """Trace lookups as plain JAX while the block runs, for exports that know no custom calls of ours.

    A function that was jitted before keeps what it was traced to: make a new one, as in
    `with portable(): jax.export.export(jax.jit(function))(*arguments)`.
    """
    token = PLAIN.set(True)
    try:
        yield
    finally:
        PLAIN.reset(token)


def is_portable() -> bool:
    """Return whether what is traced is to be plain JAX."""
    return PLAIN.get()


def called(name: str, anywhere: Callable[..., Any], *arguments: jax.Array) -> Any:
    """Return what `anywhere` computes of the arguments, on CPUs by a custom call but where it has to be portable."""
    if PLAIN.get():
        return anywhere(*arguments)
    results = jax.eval_shape(anywhere, *arguments)
    native = jax.ffi.ffi_call(PREFIX + name, results, vmap_method="sequential")
    return jax.lax.platform_dependent(*arguments, cpu=native, default=anywhere)


def taken(rows: jax.Array, index: jax.Array) -> jax.Array:
    return rows.at[index].get(mode="promise_in_bounds")


def added(rows: jax.Array, index: jax.Array, values: jax.Array) -> jax.Array:
    """Return zeros like `rows` with values[l, b] added to row index[l, b]."""
    return jnp.zeros_like(rows).at[index].add(values, mode="promise_in_bounds")


def spread(values: jax.Array, owner: jax.Array) -> jax.Array:
    """Return what the group of each example has, float32[batch, ...] of float32[groups, ...]."""
    lying = gathered_whole(values.reshape(values.shape[0], -1), owner[None])
    return lying.reshape(owner.shape[0], *values.shape[1:])


def of_examples(values: jax.Array, owner: jax.Array | None) -> jax.Array:
    """Return what each example has, of what groups have, `spread`, or where there are none, None, of what examples have."""
    return values if owner is None else spread(values, owner)


def gathered(rows: jax.Array, index: jax.Array | CommonLines) -> jax.Array:
    """Return the rows of each example, float32[batch, lines, dim] of float32[n, dim]."""
    return gathered_whole(rows, index.whole() if isinstance(index, CommonLines) else index)


@jax.custom_vjp
def gathered_whole(rows: jax.Array, index: jax.Array) -> jax.Array:
    return called("gather", lambda rows, index: taken(rows, index.T), rows, index)  # type: ignore[no-any-return]


def gathered_forward(rows: jax.Array, index: jax.Array) -> tuple[jax.Array, Saved]:
    return gathered_whole(rows, index), (rows, index)


def gathered_backward(saved: Saved, gradient: jax.Array) -> tuple[jax.Array, None]:
    rows, index = saved
    return called("scatter", lambda gradient, index: added(rows, index.T, gradient), gradient, index), None


gathered_whole.defvjp(gathered_forward, gathered_backward)


def projected(rows: jax.Array, index: jax.Array | CommonLines, kernel: jax.Array, *shared: jax.Array) -> jax.Array:
    """Return the rows of each example, side by side, times a matrix: float32[batch, units] of float32[lines * dim, units].

    On CPUs a row that a line has many times is multiplied once, where the rows of a line are near each other, as a slot's rows
    in a batch are.

    Args:
        shared: float32[groups, units], what groups have beside their common lines, to be added.
    """
    units = kernel.shape[1]
    if isinstance(index, CommonLines):
        blocks = kernel.reshape(len(index), rows.shape[1] * units)
        common, own = (of_lines(blocks, [*index.places(which)]).reshape(-1, units) for which in (True, False))
        total = spread(sum(shared, projected(rows, index.shared, common)), index.owner)
        return total + projected(rows, index.own, own) if len(index.own) else total
    if not (rest := -units % UNITS):
        return projected_whole(rows, index, kernel)
    return projected_whole(rows, index, jnp.pad(kernel, ((0, 0), (0, rest))))[:, :units]


def product(rows: jax.Array, index: jax.Array, kernel: jax.Array) -> jax.Array:
    return taken(rows, index.T).reshape(index.shape[1], len(kernel)) @ kernel


@jax.custom_vjp
def projected_whole(rows: jax.Array, index: jax.Array, kernel: jax.Array) -> jax.Array:
    return called("project", product, rows, index, kernel)  # type: ignore[no-any-return]


def projected_forward(rows: jax.Array, index: jax.Array, kernel: jax.Array) -> tuple[jax.Array, Saved]:
    return projected_whole(rows, index, kernel), (rows, index, kernel)


def projected_backward(saved: Saved, gradient: jax.Array) -> tuple[jax.Array, None, jax.Array]:
    def anywhere(rows: jax.Array, index: jax.Array, kernel: jax.Array, gradient: jax.Array) -> Saved:
        return jax.vjp(lambda rows, kernel: product(rows, index, kernel), rows, kernel)[1](gradient)  # type: ignore[no-any-return]

    of_rows, of_kernel = called("project_gradients", anywhere, *saved, gradient)
    return of_rows, None, of_kernel


projected_whole.defvjp(projected_forward, projected_backward)


def of_lines(blocks: jax.Array, lines: list[int]) -> jax.Array:
    """Return what a matrix has for some lines, a row for each."""
    if not lines or lines == list(range(lines[0], lines[0] + len(lines))):
        return of_places(blocks, lines)
    return gathered_whole(blocks, jnp.array(lines, jnp.int32)[None])[:, 0]


def totals(weights: jax.Array, index: jax.Array | CommonLines) -> jax.Array:
    """Return the sum of each example's weights, float32[batch] of float32[n]."""
    if isinstance(index, CommonLines):
        return spread(totals_whole(weights, index.shared), index.owner) + totals_whole(weights, index.own)
    return totals_whole(weights, index)


@jax.custom_vjp
def totals_whole(weights: jax.Array, index: jax.Array) -> jax.Array:
    return called("total", lambda weights, index: taken(weights, index).sum(axis=0), weights, index)  # type: ignore[no-any-return]


def totals_forward(weights: jax.Array, index: jax.Array) -> tuple[jax.Array, Saved]:
    return totals_whole(weights, index), (weights, index)


def totals_backward(saved: Saved, gradient: jax.Array) -> tuple[jax.Array, None]:
    weights, index = saved

    def anywhere(gradient: jax.Array, index: jax.Array) -> jax.Array:
        return added(weights, index, jnp.broadcast_to(gradient, index.shape))

    return called("total_gradient", anywhere, gradient, index), None


totals_whole.defvjp(totals_forward, totals_backward)


def sums(rows: jax.Array, index: jax.Array | CommonLines) -> tuple[jax.Array, jax.Array]:
    """Return the sums of each example's rows and of their squares, element by element: float32[batch, dim] both."""
    if not isinstance(index, CommonLines):
        return sums_whole(rows, index)
    both = jnp.concatenate(sums_whole(rows, index.shared), axis=1)
    common, squares = jnp.split(spread(both, index.owner), 2, axis=1)
    own, own_squares = sums_whole(rows, index.own)
    return common + own, squares + own_squares


@jax.custom_vjp
def sums_whole(rows: jax.Array, index: jax.Array) -> tuple[jax.Array, jax.Array]:
    def anywhere(rows: jax.Array, index: jax.Array) -> tuple[jax.Array, jax.Array]:
        own = taken(rows, index)
        return own.sum(axis=0), (own * own).sum(axis=0)

    return called("sum", anywhere, rows, index)  # type: ignore[no-any-return]


def sums_forward(rows: jax.Array, index: jax.Array) -> tuple[tuple[jax.Array, jax.Array], Saved]:
    return sums_whole(rows, index), (rows, index)


def sums_backward(saved: Saved, gradients: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, None]:
    def anywhere(rows: jax.Array, index: jax.Array, of_sum: jax.Array, of_squares: jax.Array) -> jax.Array:
        return added(rows, index, of_sum + 2 * of_squares * taken(rows, index))

    return called("sum_gradient", anywhere, *saved, *gradients), None


sums_whole.defvjp(sums_forward, sums_backward)


def met(rows: jax.Array, index: jax.Array, groups: tuple[jax.Array, Sequence[bool]] | None = None) -> jax.Array:
    """Return the sum over pairs of an example's lines i < j of <v_ij, v_ji>, float32[batch] of float32[n, lines * dim].

    A row holds, side by side, a vector for each line: v_ij is what the row of line i has for line j.

    Args:
        groups: the group of each example, int32[batch] ascending, and whether each line is common to the examples of a group:
            such lines meet each other once for it.
    """
    owner, common = (jnp.zeros(index.shape[1], jnp.int32), [False] * len(index)) if groups is None else groups
    return met_whole(rows, index, owner, jnp.array(common, jnp.int32))


@jax.custom_vjp
def met_whole(*arguments: jax.Array) -> jax.Array:
    return called("meet", meetings, *arguments)  # type: ignore[no-any-return]


def meetings(rows: jax.Array, index: jax.Array, *_: jax.Array) -> jax.Array:
    lines, batch = index.shape
    own = taken(rows, index.T).reshape(batch, lines, lines, rows.shape[1] // lines)
    products = (own * own.transpose(0, 2, 1, 3)).sum(axis=3)
    return 0.5 * (products.sum(axis=(1, 2)) - jnp.trace(products, axis1=1, axis2=2))


def met_forward(*arguments: jax.Array) -> tuple[jax.Array, Saved]:
    return met_whole(*arguments), arguments


def met_backward(saved: Saved, gradient: jax.Array) -> tuple[jax.Array, None, None, None]:
    def anywhere(rows: jax.Array, index: jax.Array, *others: jax.Array) -> jax.Array:
        return jax.vjp(lambda rows: meetings(rows, index), rows)[1](others[-1])[0]  # type: ignore[no-any-return]

    return called("meet_gradient", anywhere, *saved, gradient), None, None, None


met_whole.defvjp(met_forward, met_backward)
