"""Reading and writing features without a row: their occurrence counts and trial rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ....warehouse.entries import TableEntry
from ....warehouse.files import VersionFiles
from ....warehouse.rows import rows_schema
from ....warehouse.trainings.candidates import read_candidates, write_candidates
from ....warehouse.version import Version
from ...ps.candidates import Counted, OnTrial
from ...ps.compiled.table_programs import STATISTICS, Programs
from ...ps.lifecycle_table import LifecycleTable
from ...ps.placement import shard_of
from ...ps.shard import Shard
from .columns import batch_of, values


def load_candidates(shard: Shard, number: int, num_shards: int, parent: Version, now: int) -> None:
    """Put the counts of features without rows into a shard, where its operators count them."""
    candidates = shard.first.candidates
    if candidates is None:
        return
    for keys, counts, before in read_candidates(parent.stored("candidates")):
        mine = shard_of(keys, num_shards) == number
        candidates.load(Counted(keys[mine], counts[mine], before[mine]), now)


def load_trials(shard: Shard, number: int, num_shards: int, parent: Version, changed: Mapping[str, Programs]) -> None:
    """Put the trial rows of features without rows into a shard, where its operators judge by them; arguments as for load."""
    trials, programs = shard.first.trials, shard.first.programs.lead
    if trials is None or not parent.manifest.tables:
        return
    shard.first.since = int(parent.manifest.statistics.get("now", 0))
    entry = parent.manifest.tables[0]
    for batch in parent.trial_rows():
        stored = {field.name: values(column) for field, column in zip(batch.schema, batch.columns, strict=True)}
        floats = {name: np.asarray(stored[name], np.float32).reshape(-1, dim) for name, dim in entry.columns.items()}
        if entry.name in changed:
            floats |= changed[entry.name].weighing(floats, floats["w"])
        keys = stored["key"].view(np.uint64)
        kept = {full: floats[name] for name, full in programs.columns.items() if name in floats}
        statistics = {name: np.asarray(stored[name], np.uint32) for name in STATISTICS}
        found = OnTrial(keys, np.asarray(stored["slot"], np.uint16), statistics, kept)
        trials.load(found.only(shard_of(keys, num_shards) == number))


def save_candidates(shard: Shard, files: VersionFiles, number: int, entries: Sequence[TableEntry]) -> None:
    """Write a shard's counts of features without rows."""
    if shard.first.candidates is not None:
        write_candidates(files.candidates, number, *shard.first.candidates.entries())
    if isinstance(shard.first, LifecycleTable) and shard.first.trials is not None:
        save_trials(shard.first, shard.now, files, number, entries[0])


def save_trials(table: LifecycleTable, now: int, files: VersionFiles, number: int, entry: TableEntry) -> None:
    """Write the trial rows of features without rows."""
    assert table.trials is not None
    schema = rows_schema(entry)
    with files.trial_writer(entry, number) as writer:
        for keys, columns in table.dump_trials(table.trials, now):
            writer.write(batch_of(keys, columns, schema))
