"""A model between memory and the warehouse: loading shards from a version, and writing a version from shards."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ....algorithms.delayed_labels import shown
from ....warehouse.checksums import run_of
from ....warehouse.dense import read_dense, write_dense
from ....warehouse.entries import DenseEntry, TableEntry
from ....warehouse.files import VersionFiles
from ....warehouse.rows import rows_schema
from ....warehouse.version import Version
from ...cores import cores
from ...errors import StatementError, no_number
from ...input.columns import Columns
from ...input.scaling import moments_in
from ...operators.step_rates import StepRates
from ...options import written
from ...ps.compiled.table_programs import STATISTICS, Programs
from ...ps.keys import NUM_SLICES
from ...ps.lifecycle_table import tables_of
from ...ps.moments import no_moments
from ...ps.placement import shard_of, slices_of
from ...ps.rows.native import native_rows
from ...ps.shard import Shard
from ...ps.watermarks import Watermarks
from ...reserved import INTERCEPT_NUMBER
from ...trees.tree import TREE_NUMBER, NodeRows, Tree
from ..clauses.label import LABEL
from ..devices import dense_device, device_tables
from ..plan import Plan
from ..recipe import Recipe
from .candidates import load_candidates, load_trials, save_candidates
from .columns import batch_of, values
from .saved import SavedRows, merged_saved

PART_ROWS = 1 << 19
STEADY = StepRates()
Gone = Mapping[str, NDArray[np.uint64]]
"""The keys of removed rows, by the name of a shard's table."""
MAX_PARTS = 64  # of a table of a shard; with 1024 shards, file names still sort by number


def new_shard(recipe: Recipe, number: int, num_shards: int, columns: Columns, epoch: int, rates: StepRates = STEADY) -> Shard:
    """Return a shard for a recipe's tables, which are empty, and its share of the dense parameters, which are new.

    Args:
        rates: of its updates.
    """
    names = columns.slot_names
    tables = tables_of(recipe.programs, native_rows, device_tables(recipe.place))
    shard = Shard(
        tables, recipe.dense.part(number, num_shards, dense_device(recipe.place)), lambda slot: names.get(slot, str(slot))
    )
    shard.rates = rates
    shard.updates = recipe.updates
    shard.watermarks = Watermarks.fresh(slices_of(number, num_shards), shard.dense.names, epoch)
    if number == 0:
        shard.moments = no_moments(len(columns.scaled))
    return shard


def table_entries(recipe: Recipe) -> tuple[TableEntry, ...]:
    """Describe the tables as the manifest does: stored columns, then the columns for readers: the weights w, and what operators
    offer."""
    return tuple(TableEntry(p.spec.name, p.spec.dim, p.read_dims) for p in recipe.programs)


def dense_entries(recipe: Recipe) -> tuple[DenseEntry, ...]:
    """Describe the dense parameters as the manifest does."""
    return tuple(
        DenseEntry(spec.name, spec.shape, recipe.dense.columns[spec.name], spec.train_only)
        for spec in recipe.dense.specs.values()
    )


def check_continues(recipe: Recipe, parent: Version) -> None:
    """Refuse to continue a version whose rows or dense parameters the recipe cannot go on from.

    Raises:
        StatementError: another table, another size of vectors or dense parameters, or another optimizer.
    """
    check_rows(recipe, parent)
    check_dense(recipe, parent)


def check_dense(recipe: Recipe, parent: Version) -> None:
    before = {entry.name: entry for entry in parent.manifest.dense}
    for entry in dense_entries(recipe):
        old = before.get(entry.name)
        if old is None or old.shape != entry.shape:
            had = f"it of shape {old.shape}" if old else "no such parameter"
            raise StatementError(
                f"CONTINUE needs the dense parameter {entry.name} of shape {entry.shape}; version {parent.number} has {had}. "
                "Keep the slots and the sizes of layers, or TRAIN a new model."
            )
        if old.columns != entry.columns:
            raise StatementError(
                f"CONTINUE cannot change the optimizer of dense parameters: it keeps {', '.join(entry.columns)}; version "
                f"{parent.number} kept {', '.join(old.columns)}. TRAIN a new model instead."
            )


def check_rows(recipe: Recipe, parent: Version) -> None:
    before = {table.name: table for table in parent.manifest.tables}
    if gone := before.keys() - {programs.spec.name for programs in recipe.programs}:
        raise StatementError(
            f"CONTINUE needs all tables of version {parent.number}; the algorithm has no {', '.join(sorted(gone))} with these "
            "options. Keep those of the version, or TRAIN a new model."
        )
    for entry, programs in zip(table_entries(recipe), recipe.programs, strict=True):
        old = before.get(entry.name)
        if old is None or old.dim != entry.dim:
            had = ", ".join(f"{t.name} of {t.dim}" for t in before.values())
            raise StatementError(
                f"CONTINUE needs the table {entry.name} of {entry.dim}; version {parent.number} has {had}. Keep the slots, "
                "labels and sizes of vectors, or TRAIN a new model."
            )
        kept = set(programs.chain.state) - {"w"}
        if kept and not kept & set(old.columns):
            raise StatementError(
                f"CONTINUE cannot change the optimizer: it needs the columns {', '.join(sorted(kept))}; version "
                f"{parent.number} keeps {', '.join(sorted(old.columns))}. TRAIN a new model instead."
            )


def load(
    shards: Mapping[int, Shard],
    num_shards: int,
    parent: Version,
    columns: Columns,
    changed: Mapping[str, Programs],
    tree: Tree | None = None,
) -> None:
    """Put what a version holds into some of the shards, by number: the rows of their slices, and their dense parameters.

    Args:
        changed: the programs of tables, by name, in which the state that weights are derived from has to follow the weights.
        tree: of the items; one that was made anew brings the rows of its nodes.
    """
    nodes = None if tree is None else tree.nodes
    now, examples, positives = beginning_of(parent)
    dense = read_dense(parent.stored("dense"))
    for number, shard in shards.items():
        shard.now = now
        shard.count(examples, positives)
        shard.dense.load(dense, now)
        if number == 0:
            shard.moments = moments_in(parent.manifest, columns)
        load_candidates(shard, number, num_shards, parent, now)
        load_trials(shard, number, num_shards, parent, changed)
    entries = {entry.name: entry for entry in parent.manifest.tables}
    dropped = not_carried(columns, nodes is None)
    for name, batch, gone in parent.replayed(dict.fromkeys(entries), covering(shards, num_shards)):
        if gone:
            for shard in shards.values():
                shard.holding(name).store.evict(np.ascontiguousarray(batch.column(0).to_numpy().view(np.uint64)))
            continue
        rows = carried(batch, dropped)
        if not rows.num_rows:
            continue
        stored = {field.name: values(column) for field, column in zip(rows.schema, rows.columns, strict=True)}
        floats = {
            column: np.asarray(stored[column], np.float32).reshape(-1, dim) for column, dim in entries[name].columns.items()
        }
        stored |= floats
        if name in changed:
            kept = changed[name].weighing(floats, floats["w"])
            stored |= {column: kept[column] for column in floats.keys() & kept.keys()}
        keys = stored["key"].view(np.uint64)
        owner = shard_of(keys, num_shards)
        for number, shard in shards.items():
            mine = slice(None) if num_shards == 1 else owner == number
            own = {column: array[mine] for column, array in stored.items()}
            shard.holding(name).load(name, np.ascontiguousarray(keys[mine]), own, now)
    if nodes is not None:
        load_nodes(shards, num_shards, nodes, now)


def beginning_of(parent: Version) -> tuple[int, int, float]:
    """Return the newest TIME that a version has learned from, how many examples, and how many of them positive."""
    manifest, rate = parent.manifest, parent.manifest.learned.base_rate or 0.0
    examples = round(shown(manifest.learned.examples_total, rate, LABEL.kept(manifest).late))
    return int(manifest.statistics.get("now", 0)), examples, examples * rate


def load_nodes(shards: Mapping[int, Shard], num_shards: int, nodes: NodeRows, now: int) -> None:
    """Put the nodes of a tree that was made anew into the shards that have their slices, of these shards."""
    owner = shard_of(nodes.keys, num_shards)
    for number, shard in shards.items():
        mine = owner == number
        count = int(mine.sum())
        rows: dict[str, NDArray[np.generic]] = {name: np.zeros(count, np.uint32) for name in STATISTICS}
        rows |= {"slot": np.full(count, TREE_NUMBER, np.uint16), "w": nodes.vectors[mine]}
        shard.holding(nodes.table).load(nodes.table, nodes.keys[mine], rows, now)


def covering(shards: Collection[int], num_shards: int) -> range:
    """Return a run of slices that covers all slices of some shards."""
    runs = [slices_of(number, num_shards) for number in shards]
    return range(min(run.start for run in runs), max(run.stop for run in runs))


def changed_programs(plan: Plan, recipe: Recipe, parent: Version) -> dict[str, Programs]:
    """Return the programs of all tables, by name, where a plan gives other options than the version that it continues."""
    given = [(use.name, written(use.given), use.on) for use in (plan.algorithm, *plan.operators)]
    before = [(part.name, written(part.options), part.on) for part in (parent.manifest.algorithm, *parent.manifest.operators)]
    return {} if given == before else {programs.spec.name: programs for programs in recipe.programs}


def carried_rows(parent: Version, table: str, columns: Columns, wanted: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a version's table that its continuation keeps: without the intercept's where that one has none.

    Args:
        wanted: columns of the rows, `slot` among them.
    """
    dropped = not_carried(columns, True)
    for batch in parent.rows(table, wanted):
        if (kept := carried(batch, dropped)).num_rows:
            yield kept


def not_carried(columns: Columns, nodes: bool) -> list[int]:
    """Return the numbers of slots whose rows a continuation does not keep.

    Args:
        nodes: whether it keeps the rows of a tree's nodes.
    """
    return [number for number, there in ((INTERCEPT_NUMBER, columns.intercept), (TREE_NUMBER, nodes)) if not there]


def carried(batch: pa.RecordBatch, dropped: Sequence[int]) -> pa.RecordBatch:
    """Return the rows of a batch that are not of some slots."""
    return batch if not dropped else batch.filter(pa.array(~np.isin(batch["slot"].to_numpy(), dropped)))


def save(
    shards: Mapping[int, Shard],
    num_shards: int,
    files: VersionFiles,
    entries: Sequence[TableEntry],
    gone: Mapping[int, Gone] | None = None,
) -> SavedRows:
    """Write what some of the shards hold, by their numbers: rows, ordered by key, in files of about half a million, several at
    once; and dense parameters, a file per shard that has any. The count is that of the first table, which has all keys.

    Args:
        gone: where shards have only changed rows: the keys of removed rows, by shard.
    """
    for number, shard in shards.items():
        shard.collect()
        save_candidates(shard, files, number, entries)
        if shard.dense.names:
            write_dense(files.dense, number, shard.dense.dump())
    delta = gone is not None
    parts = [
        part
        for entry in entries
        for n, shard in shards.items()
        for part in parts_of(shard, slices_of(n, num_shards), n, entry, delta)
    ]
    for number, keys in (gone or {}).items():
        save_gone(shards[number], number, keys, files, entries)

    def write(part: SliceRun) -> SavedRows:
        saved = save_part(part, files)
        return saved if part.entry is entries[0] else saved._replace(rows=0)

    num_threads = min(len(parts), 2 * cores())  # they wait for the disk, too
    with ThreadPoolExecutor(num_threads, thread_name_prefix="xpsql-save") as pool:
        return merged_saved(list(pool.map(write, parts)))


class SliceRun(NamedTuple):
    """A run of a shard's slices of one table, and the number of the file that it becomes."""

    entry: TableEntry
    number: int
    shard: Shard
    slices: range
    run: int
    compression: str


def save_gone(shard: Shard, number: int, gone: Gone, files: VersionFiles, entries: Sequence[TableEntry]) -> None:
    """Write the keys of removed rows, in order, for each table that had them."""
    for entry in entries:
        keys = next(gone[name] for name, table in shard.tables.items() if entry.name in table.programs.tables)
        if len(keys):
            with files.tombstone_writer(entry, number, run_of(len(keys))) as writer:
                writer.write(pa.record_batch([pa.array(np.sort(keys).view(np.int64))], schema=writer.schema))


def parts_of(shard: Shard, slices: range, number: int, entry: TableEntry, delta: bool) -> list[SliceRun]:
    """Cut a table of a shard into parts; they, and their numbers' order by key, are the same whatever the machine."""
    pieces = min(MAX_PARTS, len(slices), 1 + len(shard.holding(entry.name)) // PART_ROWS)
    bounds = [len(slices) * i // pieces for i in range(pieces + 1)]
    runs = [slices[first:stop] for first, stop in itertools.pairwise(bounds)]
    group = run_of(len(shard.holding(entry.name)) * NUM_SLICES // len(slices))
    compression = "zstd" if delta else "none"
    return [SliceRun(entry, number * MAX_PARTS + i, shard, run, group, compression) for i, run in enumerate(runs)]


def save_part(part: SliceRun, files: VersionFiles) -> SavedRows:
    """Write a part of a table.

    Raises:
        TrainingError: a weight is NaN, so every prediction would be NaN.
    """
    schema, low, high = rows_schema(part.entry), 0.0, 0.0
    with files.writer(part.entry, part.number, part.run, part.compression) as writer:
        for keys, columns in part.shard.holding(part.entry.name).dump(part.entry.name, part.shard.now, part.slices):
            least, most = float(columns["w"].min()), float(columns["w"].max())
            if math.isnan(least):
                raise no_number("A weight is NaN")
            low, high = min(low, least), max(high, most)
            writer.write(batch_of(keys, columns, schema))
    return SavedRows(writer.rows, low, high)
