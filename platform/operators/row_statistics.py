"""Statistics of rows that an algorithm sees."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from .base import Column, Context, Operator, Rows

AGE, BEGAN = "age", "began"
"""The examples since a row was made, and the column that this takes: the examples before."""


def statistics_of_rows(names: tuple[str, ...]) -> Operator:
    """Return the operator that offers statistics of rows, which an algorithm sees as they are, not as inputs of slots."""
    columns = {BEGAN: Column(1, merge="least")} if AGE in names else {}

    def after(old: Rows, new: Rows, context: Context) -> Rows:
        return {**new, BEGAN: jnp.where(context.new[:, None], context.examples, old[BEGAN])} if columns else new

    def offer(rows: Rows, context: Context) -> jax.Array:
        known = {**rows, AGE: context.examples - rows[BEGAN][:, 0]} if columns else rows
        return jnp.stack([known[name].astype(jnp.float32) for name in names], axis=1)

    return Operator(columns, after=after, name="statistics", offers=tuple(f"@{name}" for name in names), offer=offer)
