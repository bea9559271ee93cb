"""Writing shards to a checkpoint, and restoring them."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from ....warehouse.storage import Storage
from ....warehouse.trainings.checkpoint_files import File, damaged, read_records, read_state, write_records, write_state
from ....warehouse.trainings.checkpoints import DRIVER, Checkpoint, CheckpointPart, Checkpoints, RowsFile
from ...cores import cores
from ...errors import CheckpointError
from ...input.dealing import Standing
from ...ps.candidates import Candidates, Counted
from ...ps.placement import slices_of
from ...ps.shard import Shard
from ...ps.snapshot import Snapshot, State, keys_of, layout_of, within
from ...ps.transport.codec import Codec, WireError
from ...ps.watermarks import RunRecord, Watermarks, from_lines, highest, lowest
from .driver_state import DRIVER_STATE, DriverState
from .warm_start import Beginning

HEAD = struct.Struct("<IQ")  # checksum of the declaration, bytes of the table of contents
STATE = Codec(State)

M = TypeVar("M")
T = TypeVar("T", bound=np.generic)


def write(place: Storage, folder: str, number: int, num_shards: int, snapshot: Snapshot) -> CheckpointPart:
    """Write what a shard held at one moment.

    Args:
        folder: the checkpoint's, in `place`.
        number: of the shard.

    Raises:
        ModelError: the disk is full, or the place is not writable.
        CheckpointError: the shard cannot wait for it any longer.
    """
    stem, tables = f"{folder}/shard-{number:04}", []
    for table, state in snapshot.state.tables.items():
        pieces = snapshot.records(table)
        file, rows = write_records(place, f"{stem}.{table}.parquet", snapshot.record_bytes(table), pieces)
        tables.append(RowsFile(table, file, rows, state.full))
    state_file = write_message(place, f"{stem}.state", STATE, snapshot.state)
    own = slices_of(number, num_shards)
    turns = tuple(turn for entry in snapshot.state.watermarks for turn in lines(entry))
    return CheckpointPart(number, num_shards, (own.start, own.stop), tuple(tables), state_file, turns)


def lines(entry: RunRecord) -> Iterator[tuple[int, ...]]:
    """Iterate over the watermarks of a run, for readers of a manifest."""
    for turn in entry.turns.tolist():
        yield (entry.first_slice, entry.stop_slice, *turn)


def write_message(place: Storage, name: str, codec: Codec[M], message: M) -> File:
    """Write a message of the wire as a file."""
    encoded = codec.encode(message)
    head = HEAD.pack(codec.checksum, encoded.contents_bytes)
    return write_state(place, name, (head, encoded.contents, *encoded.body))


def read_message(place: Storage, name: str, codec: Codec[M], file: File) -> M:
    """Read what write_message wrote.

    Raises:
        CheckpointError: it is damaged or missing, or of another version of xpsql.
    """
    content = read_state(place, name, file)
    checksum, contents_bytes = HEAD.unpack(content[: HEAD.size].tobytes())
    if checksum != codec.checksum:
        raise CheckpointError(f"{place.below(name)} is of another version of xpsql; resume with the one that trained")
    with damaged(place.below(name)):
        try:
            return codec.decode(np.copy(content[HEAD.size :]), contents_bytes)
        except WireError as error:
            raise ValueError(str(error)) from error


def newest_first(checkpoints: Checkpoints, since: int, note: Callable[[str], None]) -> Iterator[Checkpoint]:
    """Iterate over the complete checkpoints from an epoch on, the newest first; report damaged ones."""
    for found in checkpoints.complete():
        if isinstance(found, Checkpoint):
            if found.epoch >= since:
                yield found
        else:
            fall_back(found, note)


def fall_back(error: CheckpointError, note: Callable[[str], None]) -> None:
    """Report that a checkpoint cannot be used."""
    note(f"A checkpoint cannot be used: {error}. The training continues from the one before, or from its beginning.")


def read_driver(checkpoints: Checkpoints, checkpoint: Checkpoint) -> DriverState:
    """Read the driver's state.

    Raises:
        CheckpointError: the file is damaged or missing.
    """
    return read_message(checkpoints.place, f"{checkpoint.name}/{DRIVER}", DRIVER_STATE, checkpoint.driver)


def standing_of(driver: DriverState, entries: Iterable[RunRecord]) -> Standing:
    """Return the training's progress by turns.

    Args:
        entries: the watermarks of all shards.
    """
    known = list(entries)
    return Standing(from_lines(driver.finished), lowest(known), from_lines(driver.counted), highest(known))


class Link(NamedTuple):
    """What one old shard wrote for one checkpoint of a chain: into which folder, its part, and its state."""

    folder: str
    part: CheckpointPart
    state: State

    def rows(self, table: str) -> RowsFile:
        """Return the rows of a table."""
        return next(rows for rows in self.part.tables if rows.table == table)


class OldShard(NamedTuple):
    """An old shard that a shard takes something from.

    Attributes:
        links: what its rows are made of: the full checkpoint, then those after it; the last one alone where no rows are taken.
        slices: whose rows and candidates are taken.
    """

    links: list[Link]
    slices: range

    @property
    def part(self) -> CheckpointPart:
        return self.links[-1].part

    @property
    def state(self) -> State:
        return self.links[-1].state


def restore(
    shards: Mapping[int, Shard],
    num_shards: int,
    checkpoints: Checkpoints,
    checkpoint: Checkpoint,
    epoch: int,
    begins: Beginning | None = None,
) -> None:
    """Put what a checkpoint holds into some of the shards, by number, which are new.

    The number of shards may be another one than the checkpoint's.

    Args:
        epoch: of the driver that goes on.
        begins: what is taken of another training, whose checkpoint it is; None: all of this one's own.

    Raises:
        CheckpointError: a file is damaged or missing; the shards are unusable then.
    """

    def one(number: int) -> None:
        restore_one(shards[number], number, num_shards, checkpoints, checkpoint, epoch, begins)

    with ThreadPoolExecutor(min(len(shards), cores()), thread_name_prefix="xpsql-restore") as pool:
        list(pool.map(one, shards))


def restore_one(
    shard: Shard,
    number: int,
    num_shards: int,
    checkpoints: Checkpoints,
    checkpoint: Checkpoint,
    epoch: int,
    begins: Beginning | None,
) -> None:
    """Put a shard's share of a checkpoint into it."""
    own = slices_of(number, num_shards)
    sources = list(sources_of(own, num_shards, number, checkpoints, checkpoint))
    head = next(source for source in sources if own.start in source.slices)
    shard.now = max(source.state.now for source in sources)
    shard.count(head.state.examples, head.state.positives)
    if number == 0:
        moments = head.state.moments
        shard.moments = moments if begins is None else begins.moments(moments, len(shard.moments.count))
    entries = [entry for source in sources for entry in entries_of(source, own, shard.dense.names, source is head)]
    shard.watermarks = Watermarks.from_entries(entries, epoch)
    # Before the first batch of a pass, it may be begun once more.
    shard.pass_number = max((int(entry.turns[:, 0].max(initial=0)) for entry in entries), default=0)
    shard.dense.load({(a.name, a.column): a.values for source in sources for a in source.state.dense}, shard.now)
    for source in sources:
        if source.part.slices[0] in own:  # reports are sums over shards: they go to one
            for name, value in source.state.reports.items():
                shard.reports[name] = shard.reports.get(name, 0.0) + value
        if source.slices:
            restore_candidates(shard, source, begins)
            for table in shard.tables:
                restore_rows(shard, table, source, checkpoints.place, begins)


def sources_of(
    own: range, num_shards: int, number: int, checkpoints: Checkpoints, checkpoint: Checkpoint
) -> Iterator[OldShard]:
    """Iterate over the old shards that a shard takes something from: the one of its number, or with another number of shards
    all of them, since dense parameters may come from any."""
    chain = [*(checkpoints.manifest(name) for name in checkpoint.after), checkpoint]
    for part in checkpoint.parts:
        if part.num_shards == num_shards and part.number != number:
            continue
        first, stop = max(part.slices[0], own.start), min(part.slices[1], own.stop)
        yield OldShard(
            [link(checkpoints.place, one, part.number) for one in (chain if first < stop else chain[-1:])],
            range(first, max(first, stop)),
        )


def link(place: Storage, checkpoint: Checkpoint, number: int) -> Link:
    """Return what an old shard wrote for a checkpoint."""
    part = next(part for part in checkpoint.parts if part.number == number)
    state = read_message(place, f"{checkpoint.name}/{part.state.name}", STATE, part.state)
    return Link(checkpoint.name, part, state)


def entries_of(source: OldShard, own: range, dense: tuple[str, ...], head: bool) -> Iterator[RunRecord]:
    """Iterate over the runs of a part as far as they concern a shard."""
    for entry in source.state.watermarks:
        first, stop = max(entry.first_slice, own.start), min(entry.stop_slice, own.stop)
        kept = entry._replace(
            first_slice=first,
            stop_slice=max(first, stop),
            dense=tuple(name for name in entry.dense if name in dense),
            head=entry.head and head,
        )
        if kept.first_slice < kept.stop_slice or kept.dense or kept.head:
            yield kept


def restore_candidates(shard: Shard, source: OldShard, begins: Beginning | None = None) -> None:
    if shard.first.trials is not None and (trials := source.state.trials) is not None:
        if begins is not None:
            trials = begins.trials(trials, [name for name, dtype, _, _ in shard.first.store.layout if dtype == "float32"])
        shard.first.trials.load(trials.only(within(trials.keys, source.slices)))
    candidates, counted = shard.first.candidates, source.state.candidates
    if candidates is None or counted is None:
        return
    mine = within(counted.keys, source.slices)
    counted = Counted(counted.keys[mine], counted.counts[mine], counted.before[mine])
    counting = shard.first.programs.lead.chain.counting
    if counting is not None and source.state.now != shard.now:  # another period may have begun since
        aged = Candidates(counting)
        aged.load(counted, source.state.now)
        aged.turn(shard.now)
        counted = aged.entries()
    candidates.load(counted, shard.now)


def restore_rows(shard: Shard, table: str, source: OldShard, place: Storage, begins: Beginning | None) -> None:
    """Put the rows of a part's table into a shard: first the last full checkpoint, then the changes, link by link."""
    store = shard.tables[table].store
    there = table if begins is None else there_of(table, store.layout, source.state, begins)
    shard.tables[table].since = source.state.tables[there].since
    whole = (source.slices.start, source.slices.stop) == source.part.slices
    start = max(i for i, one in enumerate(source.links) if one.rows(there).full)
    for one in source.links[start:]:
        held, rows = one.state.tables[there], one.rows(there)
        if begins is None and held.layout != (own := layout_of(store.layout)):
            raise CheckpointError(f"{one.folder} has rows of {held.layout}; this xpsql has {own}")
        store.evict(chosen(held.gone, held.gone, source.slices))
        for records in read_records(place, f"{one.folder}/{rows.file.name}", rows.rows):
            mine = records if whole else chosen(records, keys_of(records), source.slices)
            store.put(mine if begins is None else begins.records(mine, held.layout, store.layout, store.row_bytes))


def there_of(table: str, layout: list[tuple[str, str, int, int]], state: State, begins: Beginning) -> str:
    """Return the table of another training that has the columns of one here.

    Raises:
        CheckpointError: none has all of them.
    """
    for name, held in state.tables.items():
        if begins.holds(held.layout, layout):
            return name
    raise CheckpointError(f"no table of the other training has the columns of {table}")


def chosen(values: NDArray[T], keys: NDArray[np.uint64], slices: range) -> NDArray[T]:
    """Return the values whose keys lie in some slices."""
    return np.ascontiguousarray(values[within(keys, slices)])
