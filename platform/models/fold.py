"""ML.FOLD: a function folded over the rows of a version, where they lie."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...warehouse.manifest import Manifest
from ...warehouse.rows import STATISTICS
from ...warehouse.version import Version
from .. import parts
from ..blame import blaming
from ..errors import OptionError, StatementError, Subject
from ..functions.base import Piece, RowTable
from ..functions.made import made_fold
from ..ps.keys import raw_ids, slot_seed
from ..training.row_files.columns import values
from .vertices import refuse_vertices


def fold(version: Version, use: parts.FunctionUse) -> pa.Table:
    """Return what a fold says of the rows of a version, read in pieces.

    Raises:
        StatementError: the fold does not take its options or the version's columns, breaks its contract, or fails.
        ModelError: a file is damaged, or nobody trusts the fold's text.
    """
    refuse_vertices(version.manifest, "ML.FOLD goes over weights")
    part, options = parts.FOLD.part_of(use), parts.FOLD.options_of(use)
    table = row_table(version.manifest, getattr(options, "table", ""), Subject.of_part("fold", use.name))
    made = made_fold(part, options, table, use.name, bool(use.source))
    with blaming("fold", use.name):
        state = made.zero
        wanted = [name for name, _ in STATISTICS] + list(made.columns)
        for batch in version.rows(table.name, wanted):
            state = made.add(state, piece_of(batch, table))
        return shown(made.result(state), version.manifest)


def row_table(manifest: Manifest, name: str, subject: Subject) -> RowTable:
    """Return a table of a version as functions see it, the first one where none is named.

    Raises:
        OptionError: the version has no such table.
    """
    names = [table.name for table in manifest.tables]
    if not names:
        message = f"{subject} has nothing to go over: version {manifest.version} of {manifest.model} has no rows."
        raise StatementError(message, subject=subject)
    if name and name not in names:
        subject = subject._replace(option="table")
        message = f"{subject} is {name!r}; version {manifest.version} of {manifest.model} has {', '.join(names)}."
        raise OptionError(message, subject=subject)
    entry = manifest.table(name or names[0])
    slots = tuple((slot.name, slot.number) for slot in manifest.slots if slot.share is None)
    return RowTable(entry.name, entry.columns, slots)


def piece_of(batch: pa.RecordBatch, table: RowTable) -> Piece:
    """Return stored rows as functions see them."""
    found: dict[str, NDArray[np.generic]] = {}
    for field, column in zip(batch.schema, batch.columns, strict=True):
        own = values(column)
        dim = table.columns.get(field.name)
        found[field.name] = own if dim is None else np.asarray(own, np.float32).reshape(-1, dim)
    return {**found, "key": found["key"].view(np.uint64)}


def shown(rows: pa.Table, manifest: Manifest) -> pa.Table:
    """Return rows with their keys as ML.WEIGHTS has them: of slots of ready-made ids that are keys, the ids."""
    raw = [slot.name for slot in manifest.slots if slot.raw and slot.share is None]
    if not raw or not {"slot", "key"} <= set(rows.schema.names):
        return rows
    keys = rows["key"].to_numpy().view(np.uint64)
    slots = np.array(rows["slot"].to_pylist())
    for slot in raw:
        own = (slots == slot) & (keys != np.uint64(slot_seed(slot)))
        keys = np.where(own, raw_ids(keys), keys)
    return rows.set_column(rows.schema.get_field_index("key"), "key", pa.array(keys.view(np.int64)))
