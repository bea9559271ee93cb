"""Functions on the rows of a server: folds, which clients ask of all shards, and updates, which the holder orders."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from .. import parts
from ..blame import blaming
from ..errors import OptionError, StatementError, Subject
from ..functions.base import Fold
from ..functions.made import made_fold, made_update
from ..options import Value, as_tuple, written
from ..parts import FunctionUse, PartKind, file_of
from ..ps.compiled.updates import RowUpdates, TimedUpdate
from ..ps.keyed import row_table_of
from ..ps.shard import Shard
from ..ps.transport.wire import Method
from .declared import DeclaredTables

FOLD_ROWS = 1 << 16
"""Of a piece, for which pushes wait."""


class FoldRequest(NamedTuple):
    """A request to fold the rows of a table: the fold's name, and its options as JSON."""

    fold: str
    options: str


class FoldedState(NamedTuple):
    """The state of a fold after the rows of a shard."""

    arrays: Mapping[str, NDArray[Any]]


FOLD = Method("fold", FoldRequest, FoldedState)


def used(kind: PartKind, name: str, options: Mapping[str, Any]) -> FunctionUse:
    """Return a function as a program names it, its options checked.

    Raises:
        StatementError: there is none of that name, it does not take these options, or it is one of a file.
    """
    if file_of(name) is not None:
        raise StatementError(
            f"A parameter server takes no code from its clients, and {name} is of a file. Offer it in a package, by the entry "
            f"point xpsql.{kind.name}s, installed where the server runs."
        )
    plain = {option: value.tolist() if isinstance(value, np.ndarray) else value for option, value in options.items()}
    return kind.used(name, None, {option: Value(as_tuple(value)) for option, value in plain.items()})


def request_of(use: FunctionUse) -> FoldRequest:
    """Return what shards are asked for."""
    return FoldRequest(use.name, json.dumps(dict(use.options)))


def fold_of(declared: DeclaredTables, table: str, request: FoldRequest) -> Fold:
    """Make a fold of a table.

    Raises:
        StatementError: it does not take its options, or the table's columns.
    """
    part, subject = parts.FOLD.find(request.fold, None), Subject.of_part("fold", request.fold)
    options = parts.FOLD.options(part, written(json.loads(request.options)))
    if (named := getattr(options, "table", "")) not in ("", table):
        raise OptionError(f"{subject} is of table {table} here, and its option table is {named!r}. Leave it out.")
    return made_fold(part, options, row_table_of(declared.programs(table)), part.name, False)


def folded(declared: DeclaredTables, table: str, shard: Shard, request: FoldRequest) -> FoldedState:
    """Fold the rows of a shard, a piece at a time; pushes go on between pieces.

    Raises:
        StatementError: see fold_of; or it fails.
    """
    fold, own, programs = fold_of(declared, table, request), shard.first, declared.programs(table)
    shard.collect()
    with blaming("fold", request.fold):
        state = fold.zero
        for start in range(0, own.store.end, FOLD_ROWS):
            with own.lock:
                keys, rows = own.store.scan(start, start + FOLD_ROWS)
                _, columns = own.piece(own.store, programs, keys, rows, shard.now, FOLD_ROWS)
            state = fold.add(state, {**columns, "key": keys})
    return FoldedState({name: np.ascontiguousarray(values) for name, values in state.items()})


def fold_result(fold: Fold, name: str, states: Sequence[FoldedState]) -> pa.Table:
    """Return what a fold says of all rows, of the states of shards in their order."""
    with blaming("fold", name):
        return fold.result(functools.reduce(fold.merge, [state.arrays for state in states]))


def updates_of(declared: DeclaredTables, use: FunctionUse) -> dict[str, RowUpdates]:
    """Return an update of each table that it acts on: the one that its option names, those with its slot, or all.

    Raises:
        StatementError: it does not take its options, or there is no such table or slot.
    """
    part = parts.UPDATE.find(use.name, None)
    options, subject = parts.UPDATE.options(part, written(use.options)), Subject.of_part("update", use.name)
    named, slot = getattr(options, "table", ""), getattr(options, "slot", "")
    if named and named not in declared.tables:
        raise OptionError(f"{subject._replace(option='table')} is {named!r}; the server has {', '.join(declared.tables)}.")
    having = [name for name, table in declared.tables.items() if slot in table.slots_of(name)]
    found = {}
    for name in (named,) if named else having or declared.tables:
        update = made_update(part, options, row_table_of(declared.programs(name)), part.name, False)
        found[name] = RowUpdates([TimedUpdate({name: update}, 0)])
    return found
