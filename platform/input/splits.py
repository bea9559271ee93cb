"""Splits: the numbered pieces of a training's input, and how their rows are read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ...warehouse.entries import Split
from ..engines.base import Scan
from ..engines.repeats import flat
from ..errors import StatementError
from .columns import Columns
from .kinds import kind_named
from .kinds.base import SizedKind
from .numbers import floats
from .roles import LABEL, WEIGHT
from .slot import Slot

if TYPE_CHECKING:
    from ...algorithms.losses import Loss

CHUNK_ROWS = 1 << 17


OF_NUMBERS = "Other numbers are learned by USING linear_regression, or with the option loss = 'squared'."


def check_labels(scan: Scan, splits: Sequence[Split], labels: Sequence[str], loss: Loss) -> None:
    """Refuse labels if statistics show NULLs or values that the loss does not take, before anything starts.

    A filter may drop such rows, so a scan with one is checked batch by batch instead.

    Raises:
        StatementError: names the column, the file where the query was not staged, and what was found.
    """
    for label in labels:
        for found in scan.bounds(splits, label):
            if found.nulls:
                message = f"{LABEL} {label} is NULL in {found.nulls} rows of {found.where}; filter them out."
                raise StatementError(message, subject=LABEL)
            if found.low is not None and found.high is not None:
                if loss.takes(np.array([found.low, found.high], np.float64)).all():
                    continue
                of = " of a classifier" if loss.classifier else ""
                wrong = f"{LABEL} {label}{of} must be {loss.expects}; {found.where} has {found.low} to {found.high}."
                raise StatementError(f"{wrong} {OF_NUMBERS}", subject=LABEL)


def check_weights(scan: Scan, splits: Sequence[Split], weight: str | None) -> None:
    """Refuse weights that are 0 in all rows, of which nothing would be learned; reads up to the first that is not.

    Raises:
        StatementError: they are.
    """
    if weight is None:
        return
    tables = (table for split in splits for table in scan.read(split, [weight], CHUNK_ROWS))
    if not any((floats(table.column(0)) != 0).any() for table in tables):
        message = f"{WEIGHT} {weight} is 0 in all rows: nothing would be learned. Correct it in the query, or leave it out."
        raise StatementError(message, subject=WEIGHT)


def vector_dims(columns: Columns, scan: Scan, splits: Sequence[Split]) -> Columns:
    """Return the columns with the number of elements of each vector slot, taken from its first row that has any.

    Raises:
        StatementError: no row has any, or the first split begins with another number than an earlier version; names the slot.
    """

    def dim(slot: Slot, kind: SizedKind) -> int:
        for split in splits[:1] if slot.dim else splits:
            for table in scan.read(split, [slot.column], CHUNK_ROWS):
                if found := kind.size(flat(table.column(0)).combine_chunks()):
                    return known(slot, found)
        if slot.dim:
            return slot.dim
        raise StatementError(
            f"The arrays of {slot.name} are all NULL or empty, so the length of its vectors is not known. Name it in IGNORE, "
            "or select rows that have some."
        )

    kinds = [(slot, kind_named(slot.kind)) for slot in columns.slots]
    slots = (replace(slot, dim=dim(slot, kind)) if isinstance(kind, SizedKind) else slot for slot, kind in kinds)
    return replace(columns, slots=tuple(slots))


def known(slot: Slot, found: int) -> int:
    """Return how many elements the first vector has; refuse another number than the slot's where that is known."""
    if slot.dim and found != slot.dim:
        raise StatementError(
            f"The model learned vectors of {slot.dim} elements in {slot.name}, and the query's vectors begin with one of "
            f"{found}. Select vectors as before, or train a new model."
        )
    return found


def chunk_rows(batch_size: int) -> int:
    """Return how many rows are read at once: about 131,072, a multiple of the batch size."""
    return chunk_batches(batch_size) * batch_size


def chunk_batches(batch_size: int) -> int:
    """Return how many batches a chunk becomes; with as many in a queue, the next chunk is encoded while one is learned from."""
    return max(1, CHUNK_ROWS // batch_size)


def is_empty(scan: Scan, splits: Sequence[Split]) -> bool:
    """Return whether filters leave no row of any split; reads only up to the first row left."""
    if scan.exact:
        return not any(split.rows for split in splits)
    column = scan.schema.names[:1]
    return not any(table.num_rows for split in splits for table in scan.read(split, column, CHUNK_ROWS))
