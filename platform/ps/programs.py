"""The jitted programs of a table's chain, and which columns each of them needs.

A chain is compiled from everything that it may know of a row. Most chains use little of it, so a program is traced once to
see what its results depend on, and only that is gathered, padded and passed. Names of inputs that are no columns begin with @.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from ..operators.base import Context, Operator, Rows, TableSpec, updated
from ._native import Arguments, put_rows
from .program import Given, Inputs, Program, returned

OFFERED = "offered"  # the column of what the chain's operators offer, kept with w for readers
STATISTICS = ("count", "updates", "shows", "clicks", "last_seen")
ADDED = {"count": "@counts", "shows": "@counts", "clicks": "@clicks"}  # what a push adds to which statistic
BLOCK_ROWS = 64
BROUGHT = ("@gradients", "@pulled")  # with a push

DRAWN: Inputs = {"@" + name: ("uint32", None) for name in ("pass", "split", "batch")}


class Pushed(NamedTuple):
    """What the program of a push returns.

    Attributes:
        columns: name -> float32[size, dim], the new stored columns.
        report: float32[k], the sum over keys of each transient column, in the order of `Programs.transient`; None without any.
        failed: the first row that failed, or -1; None where no operator of the chain can fail.
        ended: bool[size], rows that had ended before, and start anew; None where none does by this table's operators.
        admitted: bool[size], rows that may start; None where a row needs no admission.
        bounds: the least and the largest new weight, where asked for; None elsewhere.
    """

    columns: dict[str, jax.Array]
    report: jax.Array | None
    failed: jax.Array | None
    ended: jax.Array | None
    admitted: jax.Array | None
    bounds: tuple[jax.Array, jax.Array] | None

    @property
    def refused_row(self) -> int | None:
        """The first row that failed; None if none did."""
        first = -1 if self.failed is None else int(self.failed)
        return None if first < 0 else first


class Programs:
    """The programs of one table: `pull` for its weights, `read` for all it stores, `push` for updates. Shards share them.

    Args:
        first: of the algorithm's first table, which decides for this one too which keys have rows; None: this is the first.

    Attributes:
        stored: the names of the float columns kept in rows.
        transient: of those that are not, by which operators count.
        dims: floats of each of them.
        initial: of those that do not start at zero: keys uint32[n, 2] -> float32[n, dim], jitted.
        read_dims: floats of each column that a version keeps: those stored, `w`, and what operators offer, if anything.
        pulls_stored: what a pull returns is the stored column `w` and nothing else, so that no program need run.
        needs_pulled: a push must bring the weights that it was computed on.
        gated: a row needs admission to start.
        lives: rows are admitted or expire, by this table's operators or by the first's.
        inputs: what a pull may depend on.
    """

    def __init__(self, spec: TableSpec, chain: Operator, seed: int, first: Programs | None = None) -> None:
        self.spec = spec
        self.chain = chain
        self.seed = seed
        self.first = first
        self.gated: bool = chain.admit is not None or (first is not None and first.gated)
        self.lives: bool = chain.lives or (first is not None and first.lives)
        self.dims = {name: column.dim for name, column in chain.columns.items() if not column.transient}
        self.stored = tuple(self.dims)
        self.transient = tuple(name for name, column in chain.columns.items() if column.transient)
        rows: Inputs = {name: ("float32", (dim,)) for name, dim in self.dims.items()}
        rows |= dict.fromkeys(STATISTICS, ("uint32", ()))
        rows |= {
            "@keys": ("uint32", (2,)),
            "@mask": ("bool", ()),
            "@now": ("uint32", None),
            "@since": ("uint32", None),
            "@rows": ("int32", None),
            "@base_rate": ("float32", None),
            "slot": ("uint16", ()),
        }
        pushed: Inputs = {"@gradients": ("float32", (spec.dim,)), "@pulled": ("float32", (spec.dim,)), **DRAWN}
        pushed |= {"@" + name: ("uint32", ()) for name in ("counts", "clicks", "seen", "known")}
        self.inputs = rows
        self.read_dims = {**self.dims, "w": spec.dim, **({OFFERED: len(chain.offers)} if chain.offers else {})}
        inits = {name: column.init for name, column in chain.columns.items() if column.init and name in self.dims}
        self.initial = {name: jax.jit(partial(init, seed)) for name, init in inits.items()}
        self.pull = Program(self._pull, rows)
        self.read = Program(self._read, rows)
        self.push = Program(self._push, {**rows, **pushed}, BROUGHT)
        plain = chain.expire is None and chain.offer is None
        self.pulls_stored = plain and returned(lambda given: self._unpadded(given)["w"], rows) == "w"
        self.needs_pulled = "@pulled" in self.push.needs

    def start(
        self, columns: Mapping[str, NDArray[Any]] | Arguments, halves: NDArray[np.uint32], rows: NDArray[np.int32]
    ) -> None:
        """Set columns of new rows to their initial values, in place; `halves` are their keys, uint32[size, 2]."""
        for name, initial in self.initial.items():
            if name in columns:
                put_rows(columns[name], rows, np.asarray(initial(halves)))

    @cached_property
    def watched_push(self) -> Program:
        """As `push`, with the range of the new weights."""
        return Program(lambda given: self._push(given, watched=True), self.push.inputs, BROUGHT)

    @cached_property
    def ended(self) -> Program | None:
        """Which rows have ended; None where none ever does."""
        return None if self.chain.expire is None else Program(lambda given: self._living(given, False)[1], self.inputs)

    @cached_property
    def admission(self) -> Program | None:
        """Of a later table with admission of its own: whether keys may start, from their rows in the first table."""
        admit, first = self.chain.admit, self.first
        if admit is None or first is None:
            return None

        def judge(given: Given) -> Any:
            context = first._context(given)._replace(draw=self._draw(given))
            rows = stored_in(given, first.stored)
            return admit({**rows, **first.chain.read(rows, context)}, context) & ~given["@mask"]

        return Program(judge, {**first.inputs, **DRAWN})

    @cached_property
    def bounds(self) -> Program:
        """The range of the weights of rows; mask: the row does not count."""
        return Program(lambda given: bounds(self._read(given)["w"], self._context(given).valid & ~given["@mask"]), self.inputs)

    def _pull(self, given: Given) -> tuple[jax.Array, jax.Array | None, jax.Array | None]:
        """Return the weights that a pull sees, what operators offer and which rows have ended; None for what none does."""
        given, ended = self._living(given, not self.gated)
        rows = self._read(given)
        return rows["w"], rows.get(OFFERED), ended

    def _living(self, given: Given, anew: bool) -> tuple[Given, jax.Array | None]:
        """Return the inputs with rows that have ended as absent ones, and which have; None where none ever does.

        Args:
            anew: they read as new rows start; else as zeros.
        """
        expire = self.chain.expire
        if expire is None:
            return given, None
        context, rows = self._context(given), stored_in(given, self.stored)
        ended = expire({**rows, **self.chain.read(rows, context)}, context) & context.valid & ~given["@mask"]
        left = {name: jnp.where(ended, 0, given[name]) for name in STATISTICS}
        for name in self.stored:
            start = self._started(name, given, ended) if anew and name in self.initial else 0
            left[name] = jnp.where(ended[:, None], start, given[name])
        return {**given, **left, "@mask": given["@mask"] | ended}, ended

    def _started(self, name: str, given: Given, ended: jax.Array) -> jax.Array:
        """Return the initial values of a column, computed only where a row has ended."""
        started: jax.Array = jax.lax.cond(
            ended.any(), lambda: self.initial[name](given["@keys"]), lambda: jnp.zeros_like(given[name])
        )
        return started

    def _read(self, given: Given) -> dict[str, jax.Array]:
        """Return the columns that a version keeps, as the chain reads them; zeros on padding. mask: the row is absent."""
        rows = self._unpadded(given)
        return {name: cleared(rows[name], given["@rows"]) for name in self.read_dims}

    def _unpadded(self, given: Given) -> Rows:
        context = self._context(given)
        rows = {**self.chain.read(stored_in(given, self.stored), context)}
        if self.chain.offer is not None:
            rows[OFFERED] = jnp.where(context.new[:, None], 0, self.chain.offer(rows, context))
        return rows

    def _context(self, given: Given) -> Context:
        """Return the context of a pull; mask: the row is absent."""
        absent = given["@mask"]
        none = jnp.zeros(len(absent), jnp.uint32)
        return Context(
            valid=jnp.arange(len(absent)) < given["@rows"],
            keys=given["@keys"],
            count=none,
            shows=none,
            clicks=none,
            updates=given["updates"],
            staleness=none,
            pulled=jnp.zeros((len(absent), self.spec.dim)),
            age_seconds=age(given, absent, given["@since"]),
            idle_seconds=age(given, absent, jnp.uint32(0)),
            new=absent,
            slot=given["slot"].astype(jnp.uint32),
            draw=jnp.zeros(4, jnp.uint32),
            base_rate=given["@base_rate"],
        )

    def _push(self, given: Given, watched: bool = False) -> Pushed:
        """Apply a push; mask: the row is new."""
        given, ended = self._living(given, True)
        rows, updates, counts = stored_in(given, self.stored), given["updates"], given["@counts"]
        context = self._context(given)._replace(
            count=counts,
            shows=counts,
            clicks=given["@clicks"],
            staleness=updates - jnp.minimum(given["@seen"], updates),
            pulled=given["@pulled"],
            draw=self._draw(given),
        )
        after = updated(self.chain, rows, cleared(given["@gradients"], given["@rows"]), context)
        counted = {name: jnp.where(context.valid[:, None], after[name], 0) for name in self.transient}
        admitted, kept = None, context.valid
        if self.chain.admit is not None and self.first is None:
            admitted = self.chain.admit({**after, **counted_in(given)}, context)
            kept = kept & (~context.new | admitted)
        return Pushed(
            columns={name: after[name] for name in self.stored},
            report=jnp.array([counted[name].sum() for name in self.transient], jnp.float32) if self.transient else None,
            failed=first_of(counted["failed"][:, 0]) if "failed" in counted else None,
            ended=ended,
            admitted=admitted,
            bounds=bounds(after["w"], kept) if watched else None,
        )

    def _draw(self, given: Given) -> jax.Array:
        return jnp.stack([jnp.uint32(self.seed), given["@pass"], given["@split"], given["@batch"]])


def first_of(flags: jax.Array) -> jax.Array:
    """Return the position of the first flag that is not 0, or -1."""
    return jnp.where(flags.any(), jnp.argmax(flags), -1)


def counted_in(given: Given) -> Rows:
    """Return the statistics as a push leaves them; a new row's count has the occurrences before it."""
    counted = {name: given[name] + given[added] for name, added in ADDED.items()}
    return {**counted, "count": counted["count"] + given["@known"], "updates": given["updates"] + 1}


def bounds(weights: jax.Array, kept: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return the least and the largest element of the rows kept; infinity and minus infinity where there is none."""
    return jnp.where(kept[:, None], weights, jnp.inf).min(), jnp.where(kept[:, None], weights, -jnp.inf).max()


@partial(jax.jit, inline=True)
def cleared(values: jax.Array, first: jax.Array) -> jax.Array:
    """Return values float32[n, dim] with zeros from row `first` on.

    Written in place, a block of rows at a time: choosing by row costs several times what most chains do with an element, since
    XLA does not vectorise it on CPUs.
    """
    rows = min(BLOCK_ROWS, len(values))
    last = len(values) - rows

    def clear(state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        at, left = state
        start = jnp.minimum(at, last)
        block = jax.lax.dynamic_slice_in_dim(left, start, rows)
        block = jnp.where((start + jnp.arange(rows) < first)[:, None], block, 0)
        return at + rows, jax.lax.dynamic_update_slice_in_dim(left, block, start, 0)

    return jax.lax.while_loop(lambda state: state[0] < len(values), clear, (first, values))[1]


def stored_in(given: Given, columns: Sequence[str]) -> Rows:
    """Return the stored columns and statistics among the inputs of a program."""
    return {name: given[name] for name in (*columns, *STATISTICS)}


@partial(jax.jit, inline=True)
def age(given: Given, new: jax.Array, since: jax.Array) -> jax.Array:
    """Return the seconds since each row was last pushed, or since `since` where that is later; 0 for new rows and without TIME.

    The newest TIME pushed is `now`; `@since` is the TIME that all rows of a loaded version were brought up to.
    """
    now, last = given["@now"], given["last_seen"]
    return jnp.where(new | (last == 0), 0, now - jnp.minimum(jnp.maximum(last, since), now)).astype(jnp.float32)
