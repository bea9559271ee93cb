"""Optimizers made of optax's gradient transformations, their state kept per row."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from .base import Column, Context, Operator, Rows, TableSpec

if TYPE_CHECKING:
    import optax

PROBE_SHAPE = (128, 128)  # adafactor keeps the whole of smaller arrays
PROBE_SCALES = (1e-3, 1.0, 1e3)


def from_optax(transform: optax.GradientTransformation, table: TableSpec, name: str = "optax") -> Operator:
    """Make the optimizer of a chain from an optax transformation, checked to work row by row.

    The weights are the column "w". Each array of the transformation's state is a column `<name>_<field>`, so Adam's count is
    a row's own. Columns are float32; integer state is exact up to 2^24 and stays there: a count only says how far a bias
    correction or a schedule has come.

    Example:
        operator = from_optax(optax.yogi(1e-2), TableSpec("weights", 8), "yogi")

    Raises:
        ValueError: one update of the whole table differs from the updates of its rows (clip_by_global_norm, lamb, lars,
            adafactor, ...), or the transformation needs more than gradients and weights, or keeps random state.

    Source: Babuschkin et al., "The DeepMind JAX Ecosystem", 2020 (optax).
    """
    check_per_row(transform, name)
    return per_row(transform, table, name)


def per_row(transform: optax.GradientTransformation, table: TableSpec, name: str, sums: tuple[str, ...] = ()) -> Operator:
    """Make the optimizer of a chain from a transformation that is known to work row by row.

    Args:
        sums: the arrays of its state that add up what all gradients bring: of several sites they are the sum, see Column.
    """
    leaves, structure = jax.tree.flatten(jax.eval_shape(transform.init, jnp.zeros(table.dim)))
    names = state_names(transform, table.dim, name)

    def initial(index: int) -> Callable[[int, jax.Array], jax.Array]:
        def init(seed: int, keys: jax.Array) -> jax.Array:
            w = jnp.zeros((len(keys), table.dim)) if table.init is None else table.init(seed, keys)
            state = jax.vmap(lambda row: jax.tree.leaves(transform.init(row))[index])(w)
            return jnp.reshape(state, (len(keys), -1)).astype(jnp.float32)

        return init

    def before(gradients: jax.Array, rows: Rows, context: Context) -> tuple[jax.Array, Rows]:
        kept = [rows[n].reshape(-1, *leaf.shape).astype(leaf.dtype) for n, leaf in zip(names, leaves, strict=True)]
        state = jax.tree.unflatten(structure, kept)
        updates, state = jax.vmap(transform.update)(gradients, state, rows["w"])
        new = (leaf.reshape(len(gradients), -1).astype(jnp.float32) for leaf in jax.tree.leaves(state))
        return gradients, {**rows, **dict(zip(names, new, strict=True)), "w": rows["w"] + updates}

    zero = starts_at_zero(transform, table.dim)
    columns = {"w": Column(table.dim, table.init)}
    for index, column in enumerate(names):
        merge = "sum" if column in sums else "mean"
        columns[column] = Column(leaves[index].size, None if zero[index] else initial(index), merge=merge)
    return Operator(columns, before, optimizer=True, name=name)


def state_names(transform: optax.GradientTransformation, dim: int, name: str) -> list[str]:
    """Name the arrays of the state after their fields: adam_count, adam_mu, adam_nu; a second mu is adam_mu_2."""
    paths, _ = jax.tree_util.tree_flatten_with_path(jax.eval_shape(transform.init, jnp.zeros(dim)))
    fields = [
        next((str(getattr(key, "name", getattr(key, "key", ""))) for key in reversed(path)), "state") for path, _ in paths
    ]
    seen = [fields[: i + 1].count(field) for i, field in enumerate(fields)]
    return [f"{name}_{field}" + (f"_{nth}" if nth > 1 else "") for field, nth in zip(fields, seen, strict=True)]


def starts_at_zero(transform: optax.GradientTransformation, dim: int) -> list[bool]:
    """Return, for each array of the state, whether it starts as zeros whatever the weights are."""
    state = jax.tree.leaves(transform.init(jnp.linspace(1.0, 2.0, dim)))
    return [not np.any(np.asarray(leaf)) for leaf in state]


def check_per_row(transform: optax.GradientTransformation, name: str) -> None:
    """Raise ValueError unless updating a small table as one array equals updating its rows one by one."""
    w = jnp.linspace(-1.0, 2.0, math.prod(PROBE_SHAPE)).reshape(PROBE_SHAPE)
    try:
        check_state(transform.init(w[0]), name)
        dense, rows = transform.init(w), jax.vmap(transform.init)(w)
        for gradients in probe_gradients():
            whole, dense = transform.update(gradients, dense, w)
            each, rows = jax.vmap(transform.update)(gradients, rows, w)
            same = np.allclose(np.asarray(whole), np.asarray(each), rtol=1e-4, atol=1e-7, equal_nan=True)
            if not same:
                raise ValueError("its update of a row depends on other rows or on the shape of the whole table")
    except (TypeError, ValueError, AttributeError, KeyError, IndexError) as error:
        raise ValueError(
            f"{name} cannot be kept per row: {error}. Take a transformation that works element by element, "
            "from gradients and weights alone (adam, adagrad, rmsprop, ...)."
        ) from error


def check_state(state: Any, name: str) -> None:
    """Raise ValueError for state that a float32 column cannot hold."""
    for leaf in jax.tree.leaves(state):
        dtype = jnp.asarray(leaf).dtype
        if not (jnp.issubdtype(dtype, jnp.floating) or jnp.issubdtype(dtype, jnp.signedinteger) or dtype == jnp.bool_):
            raise ValueError(f"its state holds {dtype} (random state?), where a row keeps float32")


def probe_gradients() -> list[jax.Array]:
    """Gradients of several sizes, so that clipping shows, the last with an infinity, so that any norm of the whole does."""
    wave = jnp.sin(jnp.arange(1.0, math.prod(PROBE_SHAPE) + 1)).reshape(PROBE_SHAPE)
    return [*(wave * scale for scale in PROBE_SCALES), wave.at[0, 0].set(jnp.inf)]
