"""The jitted programs of a table's chain, and which columns each of them needs.

A chain is compiled from everything that it may know of a row. Most chains use little of it, so a program is traced once to
see what its results depend on, and only that is gathered, padded and passed. Names of inputs that are no columns begin with @.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from ..operators.base import Context, Operator, Rows, TableSpec, push

OFFERED = "offered"  # the column of what the chain's operators offer, kept with w for readers
STATISTICS = ("count", "updates", "shows", "clicks", "last_seen")
PROBE_ROWS = 64
BLOCK_ROWS = 64

Given = Mapping[str, Any]


class Program:
    """A jitted function of named arrays that all have the padded number of rows first, or are numbers.

    Args:
        function: mapping of names to arrays -> a pytree.
        inputs: every name with its dtype and the shape of one row; None for a number.

    Attributes:
        needs: the names that the result depends on; calls pass just these, and `@mask`.
    """

    def __init__(self, function: Callable[[Given], Any], inputs: Mapping[str, tuple[str, tuple[int, ...] | None]]) -> None:
        self._inputs = inputs
        self.needs = used(function, {name: probe(kind, shape) for name, (kind, shape) in inputs.items()})
        self._run = jax.jit(lambda given: function(self._complete(given)))

    def __call__(self, given: Given) -> Any:
        return self._run({name: value for name, value in given.items() if name in self.needs or name == "@mask"})

    def _complete(self, given: Given) -> Given:
        """Add zeros for what the result does not depend on."""
        size = len(given["@mask"])
        return {
            name: given[name] if name in given else jnp.zeros(() if shape is None else (size, *shape), kind)
            for name, (kind, shape) in self._inputs.items()
        }


def probe(kind: str, shape: tuple[int, ...] | None) -> jax.ShapeDtypeStruct:
    whole = () if shape is None else (PROBE_ROWS, *shape)
    return jax.ShapeDtypeStruct(whole, np.dtype(kind))  # type: ignore[no-untyped-call]


def used(function: Callable[[Given], Any], inputs: Mapping[str, jax.ShapeDtypeStruct]) -> frozenset[str]:
    """Return the names of the inputs that the results of a function depend on."""
    jaxpr = jax.make_jaxpr(function)(dict(inputs)).jaxpr
    needed = {var for var in jaxpr.outvars if not hasattr(var, "val")}
    for equation in reversed(jaxpr.eqns):
        if needed & set(equation.outvars):
            needed |= {var for var in equation.invars if not hasattr(var, "val")}
    return frozenset(name for name, var in zip(sorted(inputs), jaxpr.invars, strict=True) if var in needed)


class Programs:
    """The programs of one table: `pull` for its weights, `read` for all it stores, `push` for updates. Shards share them.

    Attributes:
        stored: the names of the float columns kept in rows.
        dims: floats of each of them.
        initial: of those that do not start at zero: keys uint32[n, 2] -> float32[n, dim], jitted.
        read_dims: floats of each column that a version keeps: those stored, `w`, and what operators offer, if anything.
        needs_pulled: a push must bring the weights that it was computed on.
    """

    def __init__(self, spec: TableSpec, chain: Operator, seed: int) -> None:
        self.spec = spec
        self.chain = chain
        self.seed = seed
        self.dims = {name: column.dim for name, column in chain.columns.items() if not column.transient}
        self.stored = tuple(self.dims)
        rows: dict[str, tuple[str, tuple[int, ...] | None]] = {name: ("float32", (dim,)) for name, dim in self.dims.items()}
        rows |= dict.fromkeys(STATISTICS, ("uint32", ()))
        rows |= {
            "@keys": ("uint32", (2,)),
            "@mask": ("bool", ()),
            "@now": ("uint32", None),
            "@since": ("uint32", None),
            "@rows": ("int32", None),
            "@base_rate": ("float32", None),
        }
        pushed: dict[str, tuple[str, tuple[int, ...] | None]] = {
            "@gradients": ("float32", (spec.dim,)),
            "@rows": ("int32", None),
        }
        pushed["@pulled"] = ("float32", (spec.dim,))
        pushed |= {"@" + name: ("uint32", ()) for name in ("counts", "clicks", "seen")}
        self.read_dims = {**self.dims, "w": spec.dim, **({OFFERED: len(chain.offers)} if chain.offers else {})}
        self.pull = Program(self._pull, rows)
        self.read = Program(self._read, rows)
        self.push = Program(self._push, {**rows, **pushed})
        self.needs_pulled = "@pulled" in self.push.needs
        inits = {name: column.init for name, column in chain.columns.items() if column.init and name in self.dims}
        self.initial = {name: jax.jit(partial(init, seed)) for name, init in inits.items()}

    def start(self, columns: Mapping[str, NDArray[Any]], halves: NDArray[np.uint32], rows: NDArray[np.int64]) -> None:
        """Set columns of new rows to their initial values, in place; `halves` are their keys, uint32[size, 2]."""
        for name in columns.keys() & self.initial.keys():
            columns[name][rows] = np.asarray(self.initial[name](halves))[: len(rows)]

    def _pull(self, given: Given) -> tuple[jax.Array, jax.Array | None]:
        """Return the weights that a pull sees, and what operators offer, None where they offer nothing."""
        rows = self._read(given)
        return rows["w"], rows.get(OFFERED)

    def _read(self, given: Given) -> dict[str, jax.Array]:
        """Return the columns that a version keeps, as the chain reads them; zeros on padding. mask: the row is absent."""
        absent, none = given["@mask"], jnp.zeros(len(given["@mask"]), jnp.uint32)
        valid = jnp.arange(len(absent)) < given["@rows"]
        updates, still = given["updates"], jnp.zeros((len(absent), self.spec.dim))
        keys, rate = given["@keys"], given["@base_rate"]
        context = Context(valid, keys, none, none, none, updates, none, still, age(given, absent), absent, rate)
        rows = {**self.chain.read(stored_in(given, self.stored), context)}
        if self.chain.offer is not None:
            rows[OFFERED] = jnp.where(absent[:, None], 0, self.chain.offer(rows, context))
        return {name: cleared(rows[name], given["@rows"]) for name in self.read_dims}

    def _push(self, given: Given) -> tuple[dict[str, jax.Array], dict[str, jax.Array], jax.Array]:
        """Return the new columns, the sums of transient ones, and the first row that failed or -1; mask: the row is new."""
        new, counts = given["@mask"], given["@counts"]
        valid = jnp.arange(len(new)) < given["@rows"]
        updates = given["updates"]
        stale = updates - jnp.minimum(given["@seen"], updates)
        keys, clicks, pulled = given["@keys"], given["@clicks"], given["@pulled"]
        rate = given["@base_rate"]
        context = Context(valid, keys, counts, counts, clicks, updates, stale, pulled, age(given, new), new, rate)
        rows = stored_in(given, self.stored)
        gradients = cleared(given["@gradients"], given["@rows"])
        stored, transient = push(self.chain, rows, gradients, context)
        failed = transient["failed"][:, 0] if "failed" in transient else jnp.zeros(1)
        first = jnp.where(failed.any(), jnp.argmax(failed), -1)
        return dict(stored), {name: values.sum() for name, values in transient.items()}, first


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


def age(given: Given, new: jax.Array) -> jax.Array:
    """Return the seconds since each row was last brought up to date; 0 for new rows and without TIME.

    `now` is the newest TIME pushed, `since` the TIME that all rows of a loaded version were brought up to.
    """
    now, last = given["@now"], given["last_seen"]
    return jnp.where(new | (last == 0), 0, now - jnp.minimum(jnp.maximum(last, given["@since"]), now)).astype(jnp.float32)
