"""A version of what shards hold at one moment, written while they go on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ....warehouse.trainings.checkpoints import CheckpointPart
from ...ps.placement import slices_of
from ...ps.shard import Shard
from ...ps.snapshot import Snapshot
from ..checkpoints.files import Link, OldShard, restore_candidates
from ..conclusion import conclude
from ..monitor import Monitor
from ..prepared import Prepared
from ..row_files.held import Held, total
from ..row_files.rows import new_shard, save

if TYPE_CHECKING:
    from ....warehouse.draft import Draft
    from ....warehouse.models import Models


def copied(snapshot: Snapshot, number: int, num_shards: int, prepared: Prepared) -> Shard:
    """Return a shard of its own that holds what another one held; the snapshot is read to its end.

    Raises:
        CheckpointError: pushes waited too long for it.
    """
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
    if prepared.plan.evaluate is not None:
        shard.watch()
    return shard


def publish(prepared: Prepared, shards: Mapping[int, Shard], draft: Draft, monitor: Monitor, models: Models) -> str | None:
    """Write what shards hold, which nobody changes meanwhile, and commit the version; see conclude."""
    saved = save(shards, prepared.places.shards, draft, draft.manifest.tables)
    held = Held(saved, total(shard.describe() for shard in shards.values()))
    monitor.write(held.described, saved.weights)
    return conclude(prepared, draft, held, monitor, models)
