"""A shard at one moment, read while the shard goes on.

    with shard.snapshot(full=False) as snapshot:    # one hold of the shard's lock
        for name in snapshot.state.tables:
            for records in snapshot.records(name):  # a hold for each piece
                ...

Values are as the shard holds them, not brought up to now, so that a shard that is restored is the same bit by bit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ..errors import CheckpointError
from .candidates import Counted, OnTrial
from .keys import slices
from .messages import Keys, Stored
from .moments import Moments
from .watermarks import RunRecord, Watermarks

if TYPE_CHECKING:
    from .dense import ShardDense
    from .table import Table

PIECE_BYTES = 1 << 22
MOST_KEPT = 0.2  # of a shard's memory: records that changed before they were read
LEAST_KEPT_BYTES = 1 << 24
CHECKPOINTS, VERSIONS = 0, 1  # the readers of snapshots: each gets what changed since its own previous snapshot

Records = NDArray[np.uint8]


class TableState(NamedTuple):
    """A table without its rows.

    Attributes:
        layout: of its records; they fit no other.
        since: as in Table.load.
        full: whether all rows are read; else only rows that changed since the previous snapshot.
        gone: uint64[k], keys evicted since then; some may have rows again.
    """

    layout: str
    since: int
    full: bool
    gone: NDArray[np.uint64]


class State(NamedTuple):
    """All that a shard holds except its rows.

    Attributes:
        now, examples, positives, reports, moments: as of Shard.
        dense: its dense parameters and their optimizer's states.
        candidates: features without rows, where they are counted.
        trials: the rows that they would have, where they are kept.
        watermarks: how far it has come in each turn.
        tables: by name, in order.
    """

    now: int
    examples: int
    positives: float
    reports: dict[str, float]
    moments: Moments
    dense: tuple[Stored, ...]
    candidates: Counted | None
    trials: OnTrial | None
    watermarks: tuple[RunRecord, ...]
    tables: dict[str, TableState]


class Snapshotted(Protocol):
    """What a snapshot needs of its shard."""

    @property
    def tables(self) -> Mapping[str, Table]:
        """Its tables, by name."""
        ...

    def take(self, snapshot: Snapshot, table: str, records: Records) -> int:
        """Read the next records of a table, and return how many there were; see Shard.take."""
        ...

    def cancel(self, snapshot: Snapshot | None = None) -> None:
        """Let the snapshot be read no further."""
        ...


class StateHolder(Protocol):
    """What a state is of: a shard."""

    now: int
    examples: int
    positives: float
    reports: dict[str, float]
    moments: Moments
    dense: ShardDense
    watermarks: Watermarks | None
    tables: Mapping[str, Table]

    @property
    def first(self) -> Table: ...


class Snapshot:
    """A shard at one moment, made by Shard.snapshot; a context manager.

    Attributes:
        state: all but the rows.
    """

    def __init__(self, shard: Snapshotted, state: State) -> None:
        self.state = state
        self._shard = shard

    def record_bytes(self, table: str) -> int:
        """Return the bytes of a record."""
        return self._shard.tables[table].store.row_bytes

    def records(self, table: str) -> Iterator[Records]:
        """Iterate over the records of a table, uint8[n, record_bytes] at a time, which are overwritten by the next ones.

        Raises:
            CheckpointError: the shard has cancelled the snapshot: pushes waited too long for it.
        """
        size = self.record_bytes(table)
        piece = np.empty((max(1, PIECE_BYTES // size), size), np.uint8)
        while taken := self._shard.take(self, table, piece):
            yield piece[:taken]

    def __enter__(self) -> Snapshot:
        return self

    def __exit__(self, *raised: object) -> None:
        """Read no more; where some is left, the shard's next snapshot is full."""
        self._shard.cancel(self)


def state_of(shard: StateHolder, full: bool, reader: int) -> State:
    """Begin to read the rows of a shard, and return all else that it holds; see Shard.snapshot."""
    tables, first = {}, shard.first
    for name, table in shard.tables.items():
        gone, whole = table.store.begin_snapshot(full, reader)
        tables[name] = TableState(layout_of(table.store.layout), table.since, whole, gone)
    return State(
        shard.now,
        shard.examples,
        shard.positives,
        dict(shard.reports),
        shard.moments,
        tuple(shard.dense.arrays()),
        first.candidates.entries() if first.candidates is not None else None,
        first.trials.entries() if first.trials is not None else None,
        shard.watermarks.entries() if shard.watermarks is not None else (),
        tables,
    )


def cancelled() -> CheckpointError:
    return CheckpointError("pushes waited too long for the checkpoint to be written; the disk is slow or does not answer")


def layout_of(layout: list[tuple[str, str, int, int]]) -> str:
    """Return a record's layout as text: "slot uint16[1] @ 8"."""
    return ", ".join(f"{name} {dtype}[{dim}] @ {offset}" for name, dtype, dim, offset in layout)


def keys_of(records: Records) -> Keys:
    """Return the keys of records, uint64[n]."""
    return np.ascontiguousarray(records[:, :8]).view(np.uint64)[:, 0]


def within(keys: Keys, chosen: range) -> NDArray[np.bool_]:
    """Return which keys lie in some slices."""
    at = slices(keys)
    return (at >= chosen.start) & (at < chosen.stop)
