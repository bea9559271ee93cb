"""The jitted programs of rows: tables that have rows for the same keys share one program.

A program is compiled from everything that it may know of a row. Most chains use little of it, so a program is traced once to
see what its results depend on, and only that is gathered, padded and passed.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from ...functions.base import Update
from ...operators.base import Rows
from ..messages import OFFERED
from .program import Given, Inputs, Program
from .table_programs import DRAWN, Programs

KEPT = 32  # of recent trainings: a CONTINUE traces nothing
ADDED = {"count": "@counts", "shows": "@counts", "clicks": "@clicks"}  # what a push adds to which statistic
Floats = NDArray[np.float32]

PUSHED: Inputs = {**DRAWN, **{"@" + name: ("uint32", ()) for name in ("counts", "clicks", "seen")}, "@trial": ("bool", ())}


class PullOutput(NamedTuple):
    """What the program of a pull returns.

    Attributes:
        weights: table -> float32[size, dim]; only tables whose pulled weights differ from the stored ones.
        offered: float32[size, k], what operators offer; None where they offer nothing.
        ended: bool[size], rows that have ended; None where none ever does.
    """

    weights: dict[str, jax.Array]
    offered: jax.Array | None
    ended: jax.Array | None


class Pushed(NamedTuple):
    """What the program of a push returns.

    Attributes:
        columns: name in the row -> float32[size, dim], the new stored columns.
        report: float32[k], the sum over keys and tables of each transient column, in the order of `RowPrograms.transient`;
            None without any.
        failed: the first row that failed, or -1; None where no operator of a chain can fail.
        ended: bool[size], rows that had ended before, and start anew; None where these tables' operators end no rows.
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


class Done(Protocol):
    """What is told of a push: see Pushed."""

    @property
    def report(self) -> jax.Array | None: ...
    @property
    def bounds(self) -> tuple[jax.Array, jax.Array] | None: ...


class RowPrograms:
    """The programs of rows. Shards share them.

    Args:
        tables: the tables whose columns a row has; the first one decides which keys have rows, the others join it.

    Attributes:
        dims: column -> floats.
        stored: the names of the columns.
        transient: names of what operators count, of all tables together.
        initial: initial values of columns that do not start at zero: see Programs.
        pull: weights, what operators offer, and which rows have ended; with memory for what is pulled as it is stored.
        pulled_stored: the tables of which a pull returns a stored column as it is, and that column.
        push: see Pushed.
        needs_pulled: the tables whose weights, as pulled, a push must bring.
        needs_updates: a push must bring the updates that rows had when they were pulled.
    """

    def __init__(self, tables: Sequence[Programs]) -> None:
        self.tables = {one.spec.name: one for one in tables}
        self.lead = tables[0]
        self.dims = {one.columns[name]: dim for one in tables for name, dim in one.dims.items()}
        self.stored = tuple(self.dims)
        self.transient = tuple(dict.fromkeys(name for one in tables for name in one.transient))
        self.initial = {one.columns[name]: init for one in tables for name, init in one.initial.items()}
        self._rows: Inputs = {name: kind for one in tables for name, kind in one.inputs.items()}
        self._brought: Inputs = {}
        for one in tables:
            self._brought |= dict.fromkeys((one.gradients, one.pulled), ("float32", (one.spec.dim,)))
        self.push = self._program_of_push(watched=False)
        self.needs_pulled = tuple(one.spec.name for one in tables if one.pulled in self.push.needs)
        self.needs_updates = "@seen" in self.push.needs
        stays = self.lead.chain.expire is None
        self.pulled_stored = {name: one.columns["w"] for name, one in self.tables.items() if stays and one.pulls_stored}
        beside = [*self.pulled_stored.values(), *(["updates"] if self.needs_updates else [])]
        self.pull = Program(self.pulled, self._rows, beside=beside)

    @cached_property
    def watched_push(self) -> Program:
        """As `push`, with the range of the new weights."""
        return self._program_of_push(watched=True)

    @cached_property
    def ended(self) -> Program | None:
        """A mask of the rows that have ended; None where rows never end."""
        lead = self.lead
        return None if lead.chain.expire is None else Program(lambda given: lead.ended(lead.own(given)), lead.inputs)

    @cached_property
    def bounds(self) -> Program:
        """The range of the weights of rows; mask: the row does not count."""

        def bounds(given: Given) -> tuple[jax.Array, jax.Array]:
            kept = self.lead.context(given).valid & ~given["@mask"]
            return bounds_of([one.kept(one.own(given), ("w",))["w"] for one in self.tables.values()], kept)

        return Program(bounds, self._rows)

    def applying(self, updates: Mapping[str, Sequence[Update]]) -> Program:
        """Return a program of updates, by table: the new stored columns, by their names in the row, and which rows end."""

        def applied(given: Given) -> tuple[dict[str, jax.Array], jax.Array]:
            ended = jnp.zeros(len(given["@mask"]), jnp.bool_)
            columns: dict[str, jax.Array] = {}
            for name, one in self.tables.items():
                found, ends = one.applied(updates.get(name, ()), one.own(given))
                columns |= {full: found[own] for own, full in one.columns.items()}
                ended = ended | ends
            return columns, ended

        return Program(applied, self._rows)

    def brought(self, pulled: Mapping[str, Floats], gradients: Mapping[str, Floats]) -> Given:
        """Return what a push brings in memory of its own, as inputs of its program: by table, float32[size, dim]."""
        tables = self.tables.values()
        brought: dict[str, Floats] = {one.gradients: gradients[one.spec.name] for one in tables}
        return brought | {one.pulled: pulled[one.spec.name] for one in tables if one.spec.name in self.needs_pulled}

    def pulled(self, given: Given) -> PullOutput:
        """Return what a pull computes; mask: the row is absent."""
        ended, weights, offered = self.lead.ended(self.lead.own(given)), {}, None
        for name, one in self.tables.items():
            if name in self.pulled_stored:
                continue
            kept = one.kept(one.without(one.own(given), ended, not one.gated), ("w", OFFERED))
            weights[name], offered = kept["w"], kept.get(OFFERED, offered)
        return PullOutput(weights, offered, ended)

    def _program_of_push(self, watched: bool) -> Program:
        inputs = {**self._rows, **PUSHED, **self._brought}
        return Program(lambda given: self.pushed(given, watched), inputs, self._brought)

    def pushed(self, given: Given, watched: bool) -> Pushed:
        """Apply a push; mask: the row is new."""
        lead, ended = self.lead, self.lead.ended(self.lead.own(given))
        left = {name: one.without(one.own(given), ended, True) for name, one in self.tables.items()}
        if ended is not None and lead.chain.counting and lead.chain.trial:  # a trial ends, its occurrences count on
            counts = jnp.where(given["@trial"], given["count"], left[lead.spec.name]["count"])
            left = {name: {**rows, "count": counts} for name, rows in left.items()}
        context = lead.context_of_push(left[lead.spec.name])
        after = {name: one.pushed(left[name]) for name, one in self.tables.items()}
        counted = [[rows[name] for rows in after.values() if name in rows] for name in self.transient]
        sums = [sum(jnp.where(context.valid[:, None], values, 0).sum() for values in of_tables) for of_tables in counted]
        failed = [jnp.where(context.valid, rows["failed"][:, 0], 0) for rows in after.values() if "failed" in rows]
        admitted, kept = None, context.valid
        if lead.chain.admit is not None and lead.first is None:
            admitted = lead.chain.admit({**after[lead.spec.name], **counted_in(left[lead.spec.name])}, context)
            kept = kept & (~(context.new | given["@trial"]) | admitted)
        return Pushed(
            columns={full: after[name][own] for name, one in self.tables.items() for own, full in one.columns.items()},
            report=jnp.stack(sums) if sums else None,
            failed=first_of(functools.reduce(jnp.maximum, failed)) if failed else None,
            ended=ended,
            admitted=admitted,
            bounds=bounds_of([rows["w"] for rows in after.values()], kept) if watched else None,
        )


@functools.lru_cache(maxsize=KEPT)
def row_programs(tables: tuple[Programs, ...]) -> tuple[RowPrograms, ...]:
    """Return the programs of all rows of an algorithm's tables: first the rows that most tables join."""
    joined = RowPrograms([one for i, one in enumerate(tables) if i == 0 or one.joins])
    return (joined, *(RowPrograms([one]) for one in tables[1:] if not one.joins))


def first_of(flags: jax.Array) -> jax.Array:
    """Return the position of the first flag that is not 0, or -1."""
    return jnp.where(flags.any(), jnp.argmax(flags), -1)


def counted_in(given: Given) -> Rows:
    """Return the statistics as a push leaves them."""
    counted = {name: given[name] + given[added] for name, added in ADDED.items()}
    return {**counted, "updates": given["updates"] + 1}


def bounds_of(weights: Sequence[jax.Array], kept: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return the least and the largest element of the rows kept; infinity and minus infinity where there is none."""
    low = functools.reduce(jnp.minimum, [jnp.where(kept[:, None], one, jnp.inf).min() for one in weights])
    high = functools.reduce(jnp.maximum, [jnp.where(kept[:, None], one, -jnp.inf).max() for one in weights])
    return low, high
