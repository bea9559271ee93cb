"""The contract of operators: pure, composable transforms on rows and gradients inside the server.

A push gathers the rows of its keys, runs the table's chain as one jitted function, and scatters the result. For a chain
(o1, ..., ok) whose last element is the optimizer, a pull is

    rows = ok.read(rows, context); o1.read(...); o2.read(...); ...                 # rows["w"] now holds the weights

and a push starts from what a pull sees:

    old = rows = the pull's
    gradients, rows = o1.before(gradients, rows, context); ...; ok.before(...)     # ok moves the weights
    rows = ok.after(old, rows, context); ...; o1.after(old, rows, context)         # reverse order

Operators that count examples (`counts`) come last there: what they count is counted although another operator refuses the
update, as it is in the integer statistics.

so decay by time in `read` is lazy and exact: a push stores the decayed row and the time it was decayed to (`last_seen`).
Operators read and change rows["w"] whatever the optimizer keeps. One that derives w from other columns (ftrl, from z and
n) has `settle`, which runs after every `read` and `after` of another operator and brings its columns into agreement. The
functions `pull` and `push` below are this paragraph as code; the server jits them.

Rows live: `expire` ends a row that a pull or push meets, as if it had never been, and `admit` decides at the end of a push
whether a row that it would create may start. Both speak for the key: with several tables the first one decides for all. A
table that has admission reads an absent row as zeros, any other as the row would start.

Shapes, with n the padded number of keys of a push:
    gradients            float32[n, dim]
    float columns        float32[n, Column.dim]
    integer statistics   uint32[n] (count, updates, shows, clicks, last_seen), as they were before this push; read-only; the
                         count of a new row has the occurrences before its admission, where they are counted
    context fields       [n] each, `keys` [n, 2]
Entries where `context.valid` is False are padding: whatever is computed there is thrown away, but it must not influence
a valid entry.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp

if TYPE_CHECKING:
    import optax

Rows = Mapping[str, jax.Array]
INTERCEPT_NUMBER = 0xFFFF  # the number of the intercept's slot


class Context(NamedTuple):
    """What an operator may know about the keys of one push or pull, beside their rows.

    Attributes:
        valid: bool[n]; False marks padding.
        keys: uint32[n, 2], low and high half of each key; for randomness that is a function of the key.
        count, shows, clicks: uint32[n], occurrences of the key in this push, again, and in positive examples (0 in a pull).
        updates: uint32[n], updates the row has had before this push.
        staleness: uint32[n], updates of the row since it was pulled (0 in a pull).
        pulled: float32[n, dim], the weights as they were pulled (0 in a pull). Where a chain uses them, they travel with the
            gradients.
        age_seconds: float32[n], newest TIME pushed, this push included, minus the row's last_seen, never negative; 0 for a
            new row. A push sets last_seen to that newest TIME, so that ages add up to the time that passed.
        idle_seconds: float32[n], newest TIME minus the TIME that the row was last seen, never negative; 0 for a new row. An age
            begins anew where a version is continued, since all its rows are brought up to one TIME; this does not.
        new: bool[n], True where this push creates the row.
        slot: uint32[n], the number of the key's slot; `TableSpec.slots` has the numbers of names, the intercept has
            INTERCEPT_NUMBER.
        draw: uint32[4], (seed, pass, split, batch): what anything random in a push is drawn from, beside the key, so that a
            replay draws the same; a version that continues another goes on with other splits.
        base_rate: float32, mean label of all examples pushed so far, this push included.
    """

    valid: jax.Array
    keys: jax.Array
    count: jax.Array  # type: ignore[assignment]  # tuple.count is of no use here
    shows: jax.Array
    clicks: jax.Array
    updates: jax.Array
    staleness: jax.Array
    pulled: jax.Array
    age_seconds: jax.Array
    idle_seconds: jax.Array
    new: jax.Array
    slot: jax.Array
    draw: jax.Array
    base_rate: jax.Array


class Column(NamedTuple):
    """A named float32 column of a row.

    Attributes:
        dim: floats per row.
        init: (seed, keys uint32[n, 2]) -> float32[n, dim], a pure function of the key; None: zeros.
        transient: not stored: 0 at the start of each push, summed over valid entries after it into the push's report
            (`violations`). A transient column is how an operator counts. Where the one named `failed` is not 0 the table
            stores nothing of the push and raises an error that names slot and key.
    """

    dim: int
    init: Callable[[int, jax.Array], jax.Array] | None = None
    transient: bool = False


class TableSpec(NamedTuple):
    """What an algorithm asks of a table: its name, floats per row, and how new weights start (None: zeros).

    `slots` has the training's slots and their numbers, where an operator that applies to some of them is in use. `dense` tells
    that the rows are the lines of a dense parameter.
    """

    name: str
    dim: int
    init: Callable[[int, jax.Array], jax.Array] | None = None
    slots: tuple[tuple[str, int], ...] = ()
    dense: bool = False


class Counting(NamedTuple):
    """What an operator asks to know of features without a row: how often they occurred before.

    Attributes:
        most: occurrences are counted up to this number, at most 1023.
        within_seconds: they are forgotten this long after, at least, and twice as long at most; infinity: never.
    """

    most: int
    within_seconds: float


class DenseSpec(NamedTuple):
    """What an algorithm asks of a dense parameter: its name (dots make a tree), shape, how it starts, a function of the seed
    (None: zeros), what makes an optimizer of its own (None: the algorithm's), and whether scoring and exports do without it."""

    name: str
    shape: tuple[int, ...]
    init: Callable[[int], jax.Array] | None = None
    optimizer: Callable[[], optax.GradientTransformation] | None = None
    train_only: bool = False


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
        read: (rows, context) -> rows, the optimizer's first, then in chain order: what a pull sees.
        settle: (rows, changed_rows, context) -> changed_rows, of an optimizer that derives w: where another operator
            changed w, make the stored columns follow; elsewhere make w follow them.
        optimizer: True for the operator that ends a chain.
        name: as written in SQL, for messages.
        needs: columns that another operator of the chain must keep.
        needs_time: True where it means nothing without the TIME clause.
        offers: names of what it offers of each feature as inputs of the algorithm, such as ctr_long.
        offer: (rows as read, context of a pull) -> float32[n, len(offers)]. A pull returns it beside w, a version keeps it, and
            each slot of features has an input `slot:name` for each. A row that is absent offers 0.
        counts: True where its columns count examples, whatever becomes of their updates: its `after` comes last.
        state: the columns of a chain's optimizer.
        one_pass: True where a second pass over the data would meet, in what it offers, the labels that it learns.
        admit: (rows, context) -> bool[n], whether a row may start, from the row as this push would leave it: w, the columns,
            the statistics, `count` with earlier occurrences if `counting` asks so. In a later table's own: the first's row.
        expire: (rows as read, context) -> bool[n], whether a row has ended; a function of the row and of its age, so that
            nobody can tell when the server took it away.
        counting: what `admit` needs to know of features without a row.
        dense: True where it acts on dense parameters, too, by `read`, `before` and `after`. Their lines are rows of the
            greatest count, and of the parameter's updates, staleness and age.
        trial: where `admit` judges a row by all that it has earned: the numbers of the slots that it concerns, none for all.
    """

    columns: Mapping[str, Column]
    before: Callable[[jax.Array, Rows, Context], tuple[jax.Array, Rows]] = keep_gradients
    after: Callable[[Rows, Rows, Context], Rows] = keep_new
    read: Callable[[Rows, Context], Rows] = keep_rows
    settle: Callable[[Rows, Rows, Context], Rows] = keep_new
    optimizer: bool = False
    name: str = "operator"
    needs: tuple[str, ...] = ()
    needs_time: bool = False
    offers: tuple[str, ...] = ()
    offer: Callable[[Rows, Context], jax.Array] | None = None
    one_pass: bool = False
    counts: bool = False
    state: tuple[str, ...] = ()
    admit: Callable[[Rows, Context], jax.Array] | None = None
    expire: Callable[[Rows, Context], jax.Array] | None = None
    counting: Counting | None = None
    trial: tuple[frozenset[int], ...] = ()
    dense: bool = False

    @property
    def lives(self) -> bool:
        """Whether it decides which rows there are."""
        return self.admit is not None or self.expire is not None


def chain(*operators: Operator) -> Operator:
    """Compose operators into one, in the order given; the last one is the optimizer.

    Raises:
        ValueError: no optimizer at the end, one before the end, two operators that keep the same column, declare a transient
            one differently or offer the same, or an operator that needs a column which none keeps.
    """
    check_order(operators)
    columns = joined_columns(operators)
    *others, optimizer = operators
    kept = {"w", *optimizer.columns}
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
        optimizer=True,
        name=", ".join(o.name for o in operators),
        needs_time=any(o.needs_time for o in operators),
        offers=joined_offers(operators),
        offer=joined_offer([o.offer for o in operators if o.offer]),
        one_pass=any(o.one_pass for o in operators),
        state=tuple(optimizer.columns),
        admit=joined(jnp.logical_and, [o.admit for o in operators if o.admit]),
        expire=joined(jnp.logical_or, [o.expire for o in operators if o.expire]),
        counting=joined_counting(operators),
        trial=tuple(slots for o in operators for slots in o.trial),
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
        raise ValueError(f"a chain of operators has one optimizer, at its end; {early} stands before the end of: {names}.")


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


def pull(chain: Operator, rows: Rows, context: Context) -> jax.Array:
    """Return the weights, float32[n, dim], that a pull of these stored rows sees."""
    return chain.read(rows, context)["w"]


def push(chain: Operator, rows: Rows, gradients: jax.Array, context: Context) -> tuple[Rows, Rows]:
    """Apply one push to gathered rows.

    Args:
        rows: the stored columns (a new row's as its columns' init says) and the integer statistics.
        gradients: float32[n, dim].

    Returns:
        The stored columns' new values, and the transient columns' float32[n, Column.dim], 0 on padding.
    """
    new = updated(chain, rows, gradients, context)
    stored = {name: new[name] for name, column in chain.columns.items() if not column.transient}
    return stored, {name: jnp.where(context.valid[:, None], new[name], 0) for name in chain.columns if name not in stored}


def updated(chain: Operator, rows: Rows, gradients: jax.Array, context: Context) -> Rows:
    """Return all columns after one push, w and the transient ones among them; arguments as for `push`."""
    counters = {name: jnp.zeros((len(gradients), c.dim), jnp.float32) for name, c in chain.columns.items() if c.transient}
    old = chain.read({**rows, **counters}, context)
    return chain.after(old, chain.before(gradients, old, context)[1], context)
