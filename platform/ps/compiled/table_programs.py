"""What a table's chain computes of its rows: the parts that row_programs.py makes programs of.

Names of inputs that are no columns begin with @.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from ...functions.base import Update
from ...operators.base import Context, Operator, Rows, TableSpec, updated
from ..messages import OFFERED
from .program import Given, Inputs, Program, returned

STATISTICS = ("count", "updates", "shows", "clicks", "last_seen")
BLOCK_ROWS = 64

DRAWN: Inputs = {"@" + name: ("uint32", None) for name in ("pass", "split", "batch")}
ROW: Inputs = {
    **dict.fromkeys(STATISTICS, ("uint32", ())),
    "@keys": ("uint32", (2,)),
    "@mask": ("bool", ()),
    "@now": ("uint32", None),
    "@since": ("uint32", None),
    "@rows": ("int32", None),
    "@base_rate": ("float32", None),
    "@examples": ("float32", None),
    "@pushed": ("float32", None),
    "@rate": ("float32", None),
    "slot": ("uint16", ()),
}


class Programs:
    """One table's part in the programs of its rows, and those programs that concern it alone; see RowPrograms.

    Args:
        first: of the algorithm's first table, which decides for this one too which keys have rows; None: this is the first.

    Attributes:
        stored: the names of the float columns kept in rows.
        columns: their names there, where rows have columns of several tables: `vectors.w`.
        transient: names of the columns that are not stored, by which operators count.
        dims: floats of each stored column.
        initial: initial values of stored columns that do not start at zero: keys uint32[n, 2] -> float32[n, dim], jitted.
        read_dims: floats of each column that a version keeps: the stored columns, `w`, and what operators offer, if anything.
        pulls_stored: what a pull returns is the stored column `w` and nothing else, so that no program need run.
        gated: a row needs admission to start.
        lives: rows are admitted or expire, by this table's operators or by the first's.
        joins: its rows are the first table's, since it neither admits nor expires any itself.
        inputs: what a pull may depend on.
    """

    def __init__(self, spec: TableSpec, chain: Operator, seed: int, first: Programs | None = None) -> None:
        self.spec = spec
        self.chain = chain
        self.seed = seed
        self.first = first
        self.gated: bool = chain.admit is not None or (first is not None and first.gated)
        self.lives: bool = chain.lives or (first is not None and first.lives)
        self.joins: bool = first is not None and not chain.lives
        self.dims = {name: column.dim for name, column in chain.columns.items() if not column.transient}
        self.stored = tuple(self.dims)
        self.columns = {name: f"{spec.name}.{name}" for name in self.stored}
        self.transient = tuple(name for name, column in chain.columns.items() if column.transient)
        self.inputs: Inputs = {self.columns[name]: ("float32", (dim,)) for name, dim in self.dims.items()} | ROW
        self.read_dims = {**self.dims, "w": spec.dim, **({OFFERED: len(chain.offers)} if chain.offers else {})}
        inits = {name: column.init for name, column in chain.columns.items() if column.init and name in self.dims}
        self.initial = {name: jax.jit(partial(init, seed)) for name, init in inits.items()}

    @property
    def gradients(self) -> str:
        """The name of the gradients among the inputs of a push."""
        return f"{self.spec.name}.@gradients"

    @property
    def pulled(self) -> str:
        """The name of the weights as pulled among the inputs of a push."""
        return f"{self.spec.name}.@pulled"

    def starting(self, weights: NDArray[np.float32]) -> dict[str, NDArray[np.float32]]:
        """Return what a new row keeps otherwise than other new rows do where its weights are these.

        Args:
            weights: float32[dim].

        Returns:
            column -> float32[1, dim].
        """
        return {name: values for name, values in self.weighing({}, weights[None]).items() if values.any()}

    def weighing(
        self, columns: Mapping[str, NDArray[np.float32]], weights: NDArray[np.float32]
    ) -> dict[str, NDArray[np.float32]]:
        """Return the stored columns of rows that come to have these weights.

        Args:
            columns: what they keep, float32[n, dim] each; a column that is not there is 0.
            weights: float32[n, dim].
        """
        n = len(weights)
        zeros = {name: np.zeros((n, dim), np.float32) for name, dim in {"w": self.spec.dim, **self.dims}.items()}
        settled = self._settle({**zeros, **columns}, weights)
        return {name: np.asarray(settled[name]) for name in self.stored}

    @cached_property
    def _settle(self) -> Callable[[Mapping[str, Any], NDArray[np.float32]], Rows]:
        """What weighing computes, compiled once for each number of rows."""

        def settle(floats: Mapping[str, Any], w: jax.Array) -> Rows:
            n = len(w)
            given: Given = {name: jnp.zeros(() if shape is None else (n, *shape), kind) for name, (kind, shape) in ROW.items()}
            context = self.context(given)
            rows = self.chain.read(stored_in({**given, **floats}, tuple(floats)), context)
            return self.chain.settle(rows, {**rows, "w": w}, context)

        return jax.jit(settle)

    @cached_property
    def read(self) -> Program:
        """All that a version keeps."""
        return Program(lambda given: self.kept(self.own(given)), self.inputs)

    @cached_property
    def pulls_stored(self) -> bool:
        plain = "w" in self.stored and self.chain.expire is None and self.chain.offer is None
        return plain and returned(lambda given: self._unpadded(self.own(given))["w"], self.inputs) == self.columns["w"]

    @cached_property
    def admission(self) -> Program | None:
        """Whether keys may start in a later table with its own admission, judged by their rows in the first table."""
        admit, first = self.chain.admit, self.first
        if admit is None or first is None:
            return None

        def judge(given: Given) -> Any:
            given = first.own(given)
            context = first.context(given)._replace(draw=self.draw(given))
            rows = stored_in(given, first.stored)
            return admit({**rows, **first.chain.read(rows, context)}, context) & ~given["@mask"]

        return Program(judge, {**first.inputs, **DRAWN})

    def own(self, given: Given) -> Given:
        """Return the inputs with this table's columns by their own names."""
        return {**given, **{name: given[column] for name, column in self.columns.items()}}

    def ended(self, given: Given) -> jax.Array | None:
        """Return which rows have ended; None where none ever does."""
        if self.chain.expire is None:
            return None
        context, rows = self.context(given), stored_in(given, self.stored)
        ended: jax.Array = self.chain.expire({**rows, **self.chain.read(rows, context)}, context) & context.valid
        return ended & ~jnp.asarray(given["@mask"])

    def without(self, given: Given, ended: jax.Array | None, anew: bool) -> Given:
        """Return the inputs with rows that have ended as absent ones.

        Args:
            anew: they read as new rows start; else as zeros.
        """
        if ended is None:
            return given
        left = {name: jnp.where(ended, 0, given[name]) for name in STATISTICS}
        for name in self.stored:
            start = self._started(name, given, ended) if anew and name in self.initial else 0
            left[name] = jnp.where(ended[:, None], start, given[name])
        return {**given, **left, "@mask": given["@mask"] | ended}

    def kept(self, given: Given, names: Collection[str] | None = None) -> dict[str, jax.Array]:
        """Return what a version keeps, or some of it, as the chain reads it; zeros on padding. mask: the row is absent."""
        rows = self._unpadded(given)
        return {name: cleared(rows[name], given["@rows"]) for name in self.read_dims if names is None or name in names}

    def applied(self, updates: Sequence[Update], given: Given) -> tuple[dict[str, jax.Array], jax.Array]:
        """Apply updates to rows, one after the other, as a pull sees them.

        Returns:
            What a version keeps of each row, and bool[n], which rows have ended by them; zeros and False on padding.
        """
        context = self.context(given)
        rows: Rows = self.chain.read(stored_in(given, self.stored), context)
        ended = jnp.zeros(len(context.valid), jnp.bool_)
        for one in updates:
            if one.ends is not None:
                ended |= one.ends(rows, context) & context.valid
            made = one.update(rows, context)
            rows = self.chain.settle(rows, {**rows, **{name: made[name] for name in ("w", *self.stored)}}, context)
        if self.chain.offer is not None:
            rows = {**rows, OFFERED: self.chain.offer(rows, context)}
        return {name: cleared(rows[name], given["@rows"]) for name in self.read_dims}, ended

    def pushed(self, given: Given) -> Rows:
        """Return all columns after a push. mask: the row is new."""
        gradients = cleared(given[self.gradients], given["@rows"])
        return updated(self.chain, stored_in(given, self.stored), gradients, self.context_of_push(given))

    def context_of_push(self, given: Given) -> Context:
        """Return the context of a push."""
        updates, counts = given["updates"], given["@counts"]
        return self.context(given)._replace(
            count=counts,
            shows=counts,
            clicks=given["@clicks"],
            staleness=updates - jnp.minimum(given["@seen"], updates),
            pulled=given[self.pulled],
            draw=self.draw(given),
            pushed=given["@pushed"],
            rate=given["@rate"],
        )

    def context(self, given: Given) -> Context:
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
            age_seconds=age(given["@now"], given["last_seen"], absent, given["@since"]),
            idle_seconds=age(given["@now"], given["last_seen"], absent, jnp.uint32(0)),
            new=absent,
            slot=given["slot"].astype(jnp.uint32),
            draw=jnp.zeros(4, jnp.uint32),
            base_rate=given["@base_rate"],
            examples=given["@examples"],
            pushed=jnp.zeros((), jnp.float32),
            rate=jnp.ones((), jnp.float32),
        )

    def draw(self, given: Given) -> jax.Array:
        """Return what operators draw from."""
        return jnp.stack([jnp.uint32(self.seed), given["@pass"], given["@split"], given["@batch"]])

    def _unpadded(self, given: Given) -> Rows:
        context = self.context(given)
        rows = {**self.chain.read(stored_in(given, self.stored), context)}
        if self.chain.offer is not None:
            rows[OFFERED] = jnp.where(context.new[:, None], 0, self.chain.offer(rows, context))
        return rows

    def _started(self, name: str, given: Given, ended: jax.Array) -> jax.Array:
        """Return the initial values of a column, computed only where a row has ended."""
        started: jax.Array = jax.lax.cond(
            ended.any(), lambda: self.initial[name](given["@keys"]), lambda: jnp.zeros_like(given[name])
        )
        return started


@partial(jax.jit, inline=True)
def cleared(values: jax.Array, first: jax.Array) -> jax.Array:
    """Return values float32[n, dim] with zeros from row `first` on."""
    rest: jax.Array = jax.lax.platform_dependent(values, first, cpu=cleared_in_blocks, default=cleared_by_row)
    return rest


def cleared_by_row(values: jax.Array, first: jax.Array) -> jax.Array:
    return jnp.where((jnp.arange(len(values)) < first)[:, None], values, 0)


def cleared_in_blocks(values: jax.Array, first: jax.Array) -> jax.Array:
    """Do the same in place, a block of rows at a time: choosing by row costs several times what most chains do with an element,
    since XLA does not vectorise it on CPUs."""
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
def age(now: jax.Array, last: jax.Array, new: jax.Array, since: jax.Array) -> jax.Array:
    """Return the seconds since each row was last pushed, or since `since` where that is later; 0 for new rows and without TIME.

    Args:
        now: the newest TIME pushed.
        last: that of each row.
    """
    return jnp.where(new | (last == 0), 0, now - jnp.minimum(jnp.maximum(last, since), now)).astype(jnp.float32)
