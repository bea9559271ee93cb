"""Publication: what shards hold at one moment becomes a version, with all rows or a delta to the previous version."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ....warehouse.manifest import DELTA
from ....warehouse.trainings.checkpoints import CheckpointPart
from ...ps.messages import Description, Keys
from ...ps.placement import slices_of
from ...ps.rows.base import MISSING, Rows
from ...ps.shard import Shard
from ...ps.snapshot import PIECE_BYTES, VERSIONS, Records, Snapshot
from ..checkpoints.files import Link, OldShard, restore_candidates
from ..clauses.evaluate import EVALUATE
from ..commit import conclude, held_back, judge
from ..monitor import Monitor
from ..prepared import Prepared
from ..recipe import Recipe
from ..row_files.rows import Gone, new_shard, save
from ..row_files.saved import SavedRows, SavedShards, merged_saved, total

if TYPE_CHECKING:
    from ....warehouse.draft import Draft
    from ....warehouse.models import Models

CHANGED_SHARE = 0.2
"""Where more of the rows changed, all are written: they would have to be written soon anyway."""
TIMES = frozenset({"@now", "@since", "@base_rate"})


class Moment(NamedTuple):
    """Shards at one moment, by number, to be read while they go on.

    Attributes:
        is_delta: whether snapshots have only rows that changed since the moment before.
    """

    snapshots: Mapping[int, Snapshot]
    described: Mapping[int, Description]
    rows: int
    is_delta: bool


class Publisher:
    """Makes versions of the shards of a resident training, one after the other.

    The first version has all rows, and so has every version of a model whose rows change by time alone. Where rows expire by
    time, it keeps a copy of the published rows, to know which have expired since.

    Args:
        recipe: of the training.
    """

    def __init__(self, recipe: Recipe) -> None:
        self._moves = any(TIMES & programs.read.needs for programs in recipe.programs)
        self._ends = any(programs.chain.expire is not None for programs in recipe.programs)
        self._kept: Mapping[int, Shard] = {}
        self._begun = False
        self._range: SavedRows | None = None

    def take(self, shards: Mapping[int, Shard], room: float) -> Moment:
        """Take snapshots, while nobody pushes.

        Args:
            room: so many rows, as a share of all, may change before all are written again.
        """
        pending = sum(shard.pending(VERSIONS) for shard in shards.values())
        rows = sum(len(table) for shard in shards.values() for table in shard.tables.values())
        full = self._moves or not self._begun or pending > min(CHANGED_SHARE, room) * rows
        snapshots = {number: shard.snapshot(full, VERSIONS) for number, shard in shards.items()}
        if not full and any(table.full for one in snapshots.values() for table in one.state.tables.values()):
            full, snapshots = True, {number: shard.snapshot(True, VERSIONS) for number, shard in shards.items()}
        self._begun = True
        described = {number: shard.describe() for number, shard in shards.items()}
        return Moment(snapshots, described, sum(len(shard.first) for shard in shards.values()), not full)

    def publish(self, prepared: Prepared, moment: Moment, draft: Draft, monitor: Monitor, models: Models) -> str | None:
        """Write what shards held, and commit the version; see conclude."""
        shards, gone = {}, {}
        for number, snapshot in moment.snapshots.items():
            shards[number], gone[number] = self._taken(number, snapshot, prepared, moment.is_delta)
        if prepared.plan.clause(EVALUATE) is not None and not moment.is_delta:
            for shard in shards.values():
                shard.watch()
        saved = save(shards, prepared.places.shards, draft, draft.manifest.tables, gone if moment.is_delta else None)
        if moment.is_delta:
            assert prepared.parent is not None
            saved, described = self._whole(saved, moment)
            requires = (*draft.manifest.requires, DELTA)
            draft.manifest = replace(draft.manifest, base=prepared.parent.number, requires=requires)
        else:
            described = total(shard.describe() for shard in shards.values())
            self._keep(shards)
        self._range = saved
        monitor.write(described, saved.weights)
        held = SavedShards(saved, described)
        failing = judge(prepared, held, monitor, models)
        conclude(prepared, draft, held, monitor, models, None, failing)
        return None if failing is None else held_back(prepared.plan.model, draft.number, failing)

    def _taken(self, number: int, snapshot: Snapshot, prepared: Prepared, is_delta: bool) -> tuple[Shard, Gone]:
        """Return a separate shard with a snapshot's rows, and the keys of removed rows."""
        shard, gone = copied(snapshot, number, prepared)
        if is_delta and self._kept:
            gone = moved_on(self._kept[number], shard, gone)
        return shard, {name: absent(shard.tables[name].store, keys) for name, keys in gone.items()}

    def _keep(self, shards: Mapping[int, Shard]) -> None:
        """Keep the rows of a full version, where later versions must find expired ones."""
        if self._ends and not self._moves:
            self._kept = shards
            for shard in shards.values():
                for table in shard.tables.values():
                    turned(table.store)

    def _whole(self, saved: SavedRows, moment: Moment) -> tuple[SavedRows, Description]:
        """Return the summary of a delta version: how many rows it has, and the range of weights since the last full one."""
        described = total(moment.described.values())
        rows = sum(len(shard.first) for shard in self._kept.values()) if self._kept else moment.rows
        ranged = saved if self._range is None else merged_saved([saved, self._range])
        return ranged._replace(rows=rows), described._replace(rows=rows if self._kept else described.rows)


def copied(snapshot: Snapshot, number: int, prepared: Prepared) -> tuple[Shard, dict[str, Keys]]:
    """Copy a snapshot of a shard, read to its end, into a separate shard; return it and the keys of removed rows.

    Raises:
        CheckpointError: pushes waited too long for it.
    """
    num_shards = prepared.places.shards
    shard, state = new_shard(prepared.recipe, number, num_shards, prepared.columns, 0), snapshot.state
    with snapshot:
        shard.now, shard.moments, shard.reports = state.now, state.moments, dict(state.reports)
        shard.count(state.examples, state.positives)
        shard.dense.load({(array.name, array.column): array.values for array in state.dense}, state.now)
        own = slices_of(number, num_shards)
        restore_candidates(shard, OldShard([Link("", CheckpointPart(number), state)], own))
        for name, table in shard.tables.items():
            table.since = state.tables[name].since
            for records in snapshot.records(name):
                table.store.put(records)
    return shard, {name: table.gone for name, table in state.tables.items()}


def moved_on(kept: Shard, shard: Shard, gone: Mapping[str, Keys]) -> dict[str, Keys]:
    """Apply the changed rows of a shard to the kept rows; expired rows are removed from both.

    Returns:
        The keys of removed rows, including expired ones.
    """
    kept.now = shard.now
    kept.count(shard.examples - kept.examples, shard.positives - kept.positives)
    for name, table in shard.tables.items():
        rows = kept.tables[name]
        rows.since = table.since
        rows.store.evict(gone[name])
        for records in all_records(table.store):
            rows.store.put(records)
    kept.collect()
    found = {}
    for name, table in shard.tables.items():
        rows = kept.tables[name]
        ended = absent(rows.store, turned(rows.store))
        table.store.evict(ended)
        found[name] = np.unique(np.concatenate([gone[name], ended]))
    return found


def all_records(store: Rows) -> Iterator[Records]:
    """Yield all rows of a store that does not change meanwhile, in pieces; see Rows.take."""
    store.begin_snapshot(True)
    return pieces(store)


def turned(store: Rows) -> Keys:
    """Return the keys of rows removed since the last call, some of which may have rows again."""
    gone, _ = store.begin_snapshot(False, VERSIONS)
    for _ in pieces(store):
        pass
    return gone


def pieces(store: Rows) -> Iterator[Records]:
    """Yield the rest of a snapshot in pieces; each piece is overwritten by the next."""
    piece = np.empty((max(1, PIECE_BYTES // store.row_bytes), store.row_bytes), np.uint8)
    while taken := store.take(piece):
        yield piece[:taken]


def absent(store: Rows, keys: Keys) -> Keys:
    """Return which of some keys have no row."""
    missing: Keys = keys[store.lookup(np.ascontiguousarray(keys)) == MISSING]
    return missing
