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

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import optax

Rows = Mapping[str, jax.Array]
Floats = Mapping[str, NDArray[np.float64]]


class Context(NamedTuple):
    """The context of one push or pull that operators see, beside the rows.

    Attributes:
        valid: bool[n]; False marks padding.
        keys: uint32[n, 2], low and high half of each key; for randomness that is a function of the key.
        count, shows, clicks: uint32[n], occurrences of the key in this push, again, and in positive examples (0 in a pull);
            where labels come late, of an example that is clicked the second occurrence is in `clicks` alone.
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
        examples: float32, how many these are.
        pushed: float32, how many of them are of this push (0 in a pull).
        rate: float32, what the optimizer's steps are multiplied by (1 in a pull).
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
    examples: jax.Array
    pushed: jax.Array
    rate: jax.Array


class Column(NamedTuple):
    """A named float32 column of a row.

    Attributes:
        dim: floats per row.
        init: (seed, keys uint32[n, 2]) -> float32[n, dim], a pure function of the key; None: zeros.
        merge: what MERGE MODEL makes of the changes of several sites: their "sum", their "mean", by how often each has seen the
            feature, or the value that is "most" or "least".
        transient: not stored: 0 at the start of each push, summed over valid entries after it into the push's report
            (`violations`). A transient column is how an operator counts. Where the one named `failed` is not 0 the table
            stores nothing of the push and raises an error that names slot and key.
    """

    dim: int
    init: Callable[[int, jax.Array], jax.Array] | None = None
    transient: bool = False
    merge: str = "mean"


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


class Whole(NamedTuple):
    """What an operator means to an algorithm that finds the weights of all examples at once.

    Attributes:
        penalty: occurrences of features, float64[n] -> the strengths of the L1 and L2 penalties on their weights, float64[n]
            each; None for none.
        most: what |w| may be.
    """

    penalty: Callable[[NDArray[np.float64]], tuple[NDArray[np.float64], NDArray[np.float64]]] | None = None
    most: float = math.inf


NO_BATCHES = "changes updates batch by batch"


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
        merge: (columns added up, those before, those of each site) -> columns, float64[n, dim] each, of an optimizer whose
            columns several sites may add up: what makes of the sums a state that fits.
        optimizer: True for the operator that ends a chain.
        name: as written in SQL, for messages.
        needs: columns that another operator of the chain must keep.
        needs_time: True where it has no effect without the TIME clause.
        offers: names of what it offers of each feature as inputs of the algorithm, such as ctr_long.
        offer: (rows as read, context of a pull) -> float32[n, len(offers)]. A pull returns it beside w, a version keeps it, and
            each slot of features has an input `slot:name` for each. A row that is absent offers 0.
        counts: True where its columns count examples, whatever becomes of their updates: its `after` comes last.
        state: the columns of a chain's optimizer.
        per_pass: its columns of one pass over the data: each pass begins with what the first one began with, so that what is
            offered never holds the label that is learned. Event time begins again with them.
        renews: True where those of the chain's optimizer are such columns, too.
        later: its name, where it acts from the second pass on.
        admit: (rows, context) -> bool[n], whether a row may start, from the row as this push would leave it: w, the columns,
            the statistics, `count` with earlier occurrences if `counting` asks so. In a later table's own: the first's row.
        expire: (rows as read, context) -> bool[n], whether a row has ended; a function of the row and of its age, so that
            nobody can tell when the server took it away.
        counting: what `admit` needs to know of features without a row.
        dense: True where it acts on dense parameters, too, by `read`, `before` and `after`. Their lines are rows of the
            greatest count, and of the parameter's updates, staleness and age.
        trial: where `admit` judges a row by all that it has earned: the numbers of the slots that it concerns, none for all.
        whole: what it means where weights are found from all examples at once; else why it means nothing there.
    """

    columns: Mapping[str, Column]
    before: Callable[[jax.Array, Rows, Context], tuple[jax.Array, Rows]] = keep_gradients
    after: Callable[[Rows, Rows, Context], Rows] = keep_new
    read: Callable[[Rows, Context], Rows] = keep_rows
    settle: Callable[[Rows, Rows, Context], Rows] = keep_new
    merge: Callable[[Floats, Floats, Sequence[Floats]], Floats] | None = None
    optimizer: bool = False
    name: str = "operator"
    needs: tuple[str, ...] = ()
    needs_time: bool = False
    offers: tuple[str, ...] = ()
    offer: Callable[[Rows, Context], jax.Array] | None = None
    per_pass: tuple[str, ...] = ()
    renews: bool = False
    later: tuple[str, ...] = ()
    counts: bool = False
    state: tuple[str, ...] = ()
    admit: Callable[[Rows, Context], jax.Array] | None = None
    expire: Callable[[Rows, Context], jax.Array] | None = None
    counting: Counting | None = None
    trial: tuple[frozenset[int], ...] = ()
    dense: bool = False
    whole: Whole | str = NO_BATCHES

    @property
    def lives(self) -> bool:
        """Whether it decides which rows there are."""
        return self.admit is not None or self.expire is not None


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


def mixed(bits: jax.Array) -> jax.Array:
    """Return well-mixed 32-bit integers.

    Source: the finalizer of MurmurHash3 (Appleby, 2011).
    """
    bits = (bits ^ (bits >> 16)) * jnp.uint32(0x85EBCA6B)
    bits = (bits ^ (bits >> 13)) * jnp.uint32(0xC2B2AE35)
    return bits ^ (bits >> 16)


def uniform(context: Context) -> jax.Array:
    """Return float32[n] in [0, 1), a function of (seed, key, pass, split, batch), so that a replay draws the same."""
    state = jnp.uint32(0x9E3779B9)
    for value in context.draw:
        state = mixed(state ^ value) + jnp.uint32(0x9E3779B9)
    bits = mixed(context.keys[:, 0] ^ mixed(context.keys[:, 1] ^ state))
    return (bits >> 8).astype(jnp.float32) / (1 << 24)
