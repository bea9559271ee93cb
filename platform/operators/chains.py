"""Chains of operators, composed into one."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from .base import Column, Context, Counting, Operator, Rows, Whole


def chain(*operators: Operator) -> Operator:
    """Compose operators into one, in the order given; the last one is the optimizer.

    Raises:
        ValueError: no optimizer at the end, one before the end, two operators that keep the same column, declare a transient
            one differently or offer the same, or an operator that needs a column which none keeps.
    """
    check_order(operators)
    columns = joined_columns(operators)
    *others, optimizer = operators
    kept, renews = {"w", *optimizer.columns}, any(o.renews for o in operators)
    counting = [operator for operator in others if operator.counts]
    in_order_after = (*reversed([operator for operator in others if not operator.counts]), *counting)

    def settled(rows: Rows, changed: Rows, context: Context) -> Rows:
        moved = any(changed[name] is not rows[name] for name in kept & changed.keys())
        return optimizer.settle(rows, changed, context) if moved else changed

    def before(gradients: jax.Array, rows: Rows, context: Context) -> tuple[jax.Array, Rows]:
        for operator in operators:
            gradients, rows = operator.before(gradients, rows, context)
        return gradients, rows

    def after(old: Rows, new: Rows, context: Context) -> Rows:
        new = optimizer.after(old, new, context)
        for operator in in_order_after:
            new = settled(new, operator.after(old, new, context), context)
        return new

    def read(rows: Rows, context: Context) -> Rows:
        rows = optimizer.read(rows, context)
        for operator in others:
            rows = settled(rows, operator.read(rows, context), context)
        return rows

    return Operator(
        columns,
        before,
        after,
        read,
        optimizer.settle,
        merge=optimizer.merge,
        optimizer=True,
        name=", ".join(o.name for o in operators),
        needs_time=any(o.needs_time for o in operators),
        offers=joined_offers(operators),
        offer=joined_offer([o.offer for o in operators if o.offer]),
        per_pass=(*(name for o in operators for name in o.per_pass), *(optimizer.columns if renews else ())),
        later=tuple(name for o in operators for name in o.later),
        state=tuple(optimizer.columns),
        admit=joined(jnp.logical_and, [o.admit for o in operators if o.admit]),
        expire=joined(jnp.logical_or, [o.expire for o in operators if o.expire]),
        counting=joined_counting(operators),
        trial=tuple(slots for o in operators for slots in o.trial),
        whole=joined_whole([o.whole for o in operators if isinstance(o.whole, Whole)]),
    )


Test = Callable[[Rows, Context], jax.Array]


def joined(combine: Callable[[jax.Array, jax.Array], jax.Array], tests: Sequence[Test]) -> Test | None:
    """Return one test of all, None where there is none."""
    return (lambda rows, context: functools.reduce(combine, (test(rows, context) for test in tests))) if tests else None


def joined_counting(operators: tuple[Operator, ...]) -> Counting | None:
    """Return what satisfies all operators; raise ValueError where they forget after different times."""
    asked = [o.counting for o in operators if o.counting]
    if len({one.within_seconds for one in asked}) > 1:
        raise ValueError("operators that count occurrences `within` a time must name the same time.")
    return max(asked) if asked else None


def joined_whole(parts: Sequence[Whole]) -> Whole:
    """Return the sum of penalties and the least limit."""
    penalties = [part.penalty for part in parts if part.penalty]

    def penalty(counts: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        l1, l2 = zip(*(one(counts) for one in penalties), strict=True)
        return sum(l1, np.zeros(len(counts))), sum(l2, np.zeros(len(counts)))

    return Whole(penalty if penalties else None, min((part.most for part in parts), default=math.inf))


def check_order(operators: tuple[Operator, ...]) -> None:
    """Raise ValueError unless the last operator, and no other, is an optimizer."""
    names = ", ".join(o.name for o in operators) or "nothing"
    if not operators or not operators[-1].optimizer:
        raise ValueError(
            f"a chain of operators ends with an optimizer (ftrl, adagrad, ...), which moves the weights; this one is: {names}. "
            "A step after the optimizer would change a gradient that is spent: put it before."
        )
    early = next((o.name for o in operators[:-1] if o.optimizer), None)
    if early is not None:
        raise ValueError(f"a chain of operators has one optimizer, at its end; {early} comes before the end of: {names}.")


def joined_columns(operators: tuple[Operator, ...]) -> dict[str, Column]:
    """Return the columns of all operators; raise ValueError where two disagree or a needed one is missing."""
    columns: dict[str, Column] = {}
    for operator in operators:
        for name, column in operator.columns.items():
            if name in columns and not column.transient:
                raise ValueError(
                    f"{operator.name} keeps the column {name!r}, as one before it does: name such an operator once."
                )
            if columns.setdefault(name, column) != column:
                raise ValueError(f"{operator.name} declares the column {name!r} differently from an operator before it.")
    for operator in operators:
        for name in operator.needs:
            if name not in columns:
                raise ValueError(f"{operator.name} changes the column {name!r}, which {operators[-1].name} does not keep.")
    return columns


def joined_offers(operators: tuple[Operator, ...]) -> tuple[str, ...]:
    """Return what all operators offer, in order; raise ValueError where two offer the same."""
    offers = tuple(name for operator in operators for name in operator.offers)
    twice = next((name for name in offers if offers.count(name) > 1), None)
    if twice is not None:
        names = " and ".join(o.name for o in operators if twice in o.offers)
        raise ValueError(f"{names} both offer {twice}: name such an operator once.")
    return offers


def joined_offer(parts: list[Callable[[Rows, Context], jax.Array]]) -> Callable[[Rows, Context], jax.Array] | None:
    """Return one function of all that operators offer, None where there is none."""
    return (lambda rows, context: jnp.concatenate([part(rows, context) for part in parts], 1)) if parts else None
