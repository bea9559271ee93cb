"""ALTER MODEL ... APPLY: a new version whose rows are those of another one after updates, row by row."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...warehouse.draft import Draft
from ...warehouse.entries import AppliedEntry, TableEntry
from ...warehouse.manifest import Manifest
from ...warehouse.models import Models
from ...warehouse.rows import rows_schema
from ...warehouse.version import Version
from .. import parts
from ..errors import ModelError, StatementError, Subject
from ..functions.base import Piece, RowTable, Update
from ..functions.made import made_update
from ..input.columns import columns_from
from ..options import written
from ..ps.compiled.ladder import rung
from ..ps.compiled.table_programs import STATISTICS, Programs
from ..training.clauses.label import LABEL
from ..training.compiled import prepare_jax
from ..training.recipe import UsedOperator, make, options_in, slot_numbers
from ..training.row_files.columns import batch_of
from ..trust import digest
from .fold import piece_of, row_table
from .rows_alone import is_rows_alone, programs_alone
from .shrink import check_condition, copy_others, revisable, revised
from .vertices import refuse_vertices
from .weights import weights

if TYPE_CHECKING:
    from ..engines.base import Engine
    from ..engines.spark_sql.passage import Passage

STORED_KEY = "xpsql_stored_key"
Keys = NDArray[np.uint64]


class Altered(NamedTuple):
    """A version that updates made: its manifest, and how many rows they have changed and removed, of all tables."""

    manifest: Manifest
    changed: int
    removed: int


def apply(
    models: Models, engine: Engine, name: str, uses: Sequence[parts.FunctionUse], condition: Passage | None, statement: str
) -> Altered:
    """Make a version of the one served by updates, applied in their order to each row for which a condition is true.

    Raises:
        StatementError: an update does not take its options, breaks its contract or makes a weight NaN; or the condition cannot
            be evaluated, with the position in it. No version is made.
        ModelError: see shrink.revisable; or a file is damaged.
    """
    parent = revisable(models, name, "ALTER MODEL ... APPLY changes weights")
    refuse_vertices(parent.manifest, "ALTER MODEL ... APPLY changes weights")
    prepare_jax()
    applied = applications(parent, uses)
    chosen = None if condition is None else keys_chosen(parent, engine, condition)
    entries = tuple(AppliedEntry(use.name, use.options, digest(use.source) if use.source else "") for use in uses)
    with models.begin(name, revised(parent, statement).having_origin(applied=entries)) as draft:
        try:
            changed = removed = 0
            gone = np.empty(0, np.uint64)
            for one in applied:
                done = write(draft, parent, one, None if chosen is None else chosen[one.entry.name], gone)
                changed, removed = changed + done.changed, removed + len(done.gone)
                if one is applied[0]:
                    rows, gone = done.rows, gone if is_rows_alone(parent.manifest) else np.sort(done.gone)
            forgets = write_trials(draft, parent, applied[0])
        except StatementError:
            draft.discard()
            raise
        others = ("dense", "tree", "calibration", "profile")
        copy_others(parent, draft, others if forgets else (*others, "candidates", "trials"))
        draft.commit(draft.manifest.having_learned(rows=rows))
        return Altered(draft.manifest, changed, removed)


class RowChange:
    """Updates of a table's rows, compiled.

    Args:
        manifest: of the version whose rows they are.
        entry: the table.
        programs: of the table.
        updates: those that act on this table, in order.
        at: the TIME that rows are brought up to; None: the version's.
    """

    def __init__(
        self, manifest: Manifest, entry: TableEntry, programs: Programs, updates: Sequence[Update], at: int | None = None
    ) -> None:
        self.entry, self.updates, self._manifest, self._programs = entry, updates, manifest, programs
        since = np.uint32(manifest.statistics.get("now", 0))
        rate, examples = manifest.learned.base_rate or 0.0, manifest.learned.examples_total
        now = since if at is None else np.uint32(at)
        self._numbers = {"@now": now, "@since": since, "@base_rate": np.float32(rate), "@examples": np.float32(examples)}
        self._program = jax.jit(partial(programs.applied, tuple(updates)))
        self._size = 0

    @property
    def of_trials(self) -> RowChange:
        """What removes trial rows."""
        return RowChange(self._manifest, self.entry, self._programs, [one for one in self.updates if one.trials])

    def __call__(self, piece: Piece) -> tuple[dict[str, NDArray[Any]], NDArray[np.bool_]]:
        """Return the float columns of rows after the updates, and which rows have ended."""
        n = len(piece["key"])
        self._size = size = max(self._size, rung(n))
        keys = np.ascontiguousarray(piece["key"]).view(np.uint32).reshape(-1, 2)
        own = {name: piece[name] for name in (*STATISTICS, "slot", *self.entry.columns)}
        given = {name: padded(values, size) for name, values in {**own, "@keys": keys}.items()}
        numbers = {**self._numbers, "@mask": np.zeros(size, np.bool_), "@rows": np.int32(n), "@rate": np.float32(1)}
        found, ended = self._program({**given, **numbers})
        return {name: np.asarray(values)[:n] for name, values in found.items()}, np.asarray(ended)[:n]


def padded(values: NDArray[Any], size: int) -> NDArray[Any]:
    """Return values with zeros up to a size."""
    found = np.zeros((size, *values.shape[1:]), values.dtype)
    found[: len(values)] = values
    return found


def applications(parent: Version, uses: Sequence[parts.FunctionUse]) -> list[RowChange]:
    """Return the updates of each of a version's tables.

    Raises:
        StatementError: an update does not take its options, or breaks its contract.
        ModelError: the version is damaged, or nobody trusts its text.
    """
    manifest = parent.manifest
    programs = programs_of(manifest)
    made: dict[str, list[Update]] = {entry.name: [] for entry in manifest.tables}
    for use in uses:
        part, options = parts.UPDATE.part_of(use), parts.UPDATE.options_of(use)
        subject, named = Subject.of_part("update", use.name), getattr(options, "table", "")
        first, apart = row_table(manifest, named, subject).name, is_rows_alone(manifest)
        own = [entry for entry in manifest.tables if apart and has_slot(programs[entry.name], getattr(options, "slot", ""))]
        for entry in (manifest.table(first),) if named else own or manifest.tables:
            table = row_table(manifest, entry.name, subject)._replace(init=programs[entry.name].spec.init)
            update = made_update(part, options, table, use.name, bool(use.source))
            # A row of the first table takes the key's rows in the others along, and no other table decides for it.
            made[entry.name].append(update if apart or entry.name == first else update._replace(ends=None))
    return [RowChange(manifest, entry, programs[entry.name], made[entry.name]) for entry in manifest.tables]


def has_slot(programs: Programs, slot: str) -> bool:
    """Return whether features of a slot have rows in a table."""
    return slot.lower() in (name.lower() for name, _ in programs.spec.slots)


def programs_of(manifest: Manifest) -> dict[str, Programs]:
    """Return the programs of a version's tables, by name.

    Raises:
        ModelError: its options give other tables than it has.
    """
    if is_rows_alone(manifest):
        return programs_alone(manifest)
    columns, algorithm = columns_from(manifest), parts.part_in(manifest)
    operators = []
    for entry in manifest.operators:
        part = parts.OPERATOR.find(entry.name, None)
        operators.append(UsedOperator(part, parts.OPERATOR.options(part, written(entry.options)), tuple(entry.on)))
    options = parts.ALGORITHM.options(algorithm, written(options_in(manifest)))
    numbers = slot_numbers(columns) if any(getattr(used.options, "slots", ()) for used in operators) else ()
    late = LABEL.kept(manifest).late
    recipe = make(algorithm, options, columns.layout, late, tuple(operators), numbers, manifest.seed, False)
    programs = {one.spec.name: one for one in recipe.programs}
    have = {entry.name: dict(entry.columns) for entry in manifest.tables}
    if have != {name: one.read_dims for name, one in programs.items()}:
        raise ModelError(
            f"The manifest of {manifest.model} v{manifest.version} is damaged: with its options and operators rows have other "
            f"columns than {have}. Restore it from a backup."
        )
    return programs


def keys_chosen(parent: Version, engine: Engine, condition: Passage) -> dict[str, Keys]:
    """Return the keys, ascending, of the rows of each table for which a condition on the columns of ML.WEIGHTS is true."""
    found, text = {}, condition.text
    with condition.locating(), weights(parent, engine) as relation:
        check_condition(engine, relation, text, "ALTER MODEL ... APPLY")
        for entry in parent.manifest.tables:
            stored = relation.select_table(entry.name, extra={STORED_KEY: "`key`"})
            query = f"SELECT {STORED_KEY} FROM ({stored}) AS weights WHERE coalesce((\n{text}\n), FALSE)"
            keys = [batch.column(0).to_numpy().view(np.uint64) for batch in engine.reader(query)]
            found[entry.name] = np.sort(np.concatenate([np.empty(0, np.uint64), *keys]))
    return found


class WrittenTable(NamedTuple):
    """How many rows a table of a draft has, how many updates have changed, and the keys of those that are gone."""

    rows: int
    changed: int
    gone: Keys


def write(draft: Draft, parent: Version, one: RowChange, chosen: Keys | None, gone: Keys) -> WrittenTable:
    """Write a table's rows as updates leave them.

    Args:
        chosen: the keys of the rows that updates see, ascending; None: all.
        gone: the keys whose rows go with those of the first table, ascending.

    Raises:
        StatementError: a weight becomes NaN.
    """
    schema, changed, ended = rows_schema(one.entry), 0, [np.empty(0, np.uint64)]
    table = RowTable(one.entry.name, one.entry.columns)
    with draft.writer(one.entry) as writer:
        for batch in parent.rows(one.entry.name):
            piece = piece_of(batch, table)
            keys = piece["key"]
            seen = np.ones(len(keys), np.bool_) if chosen is None else among(keys, chosen)
            found, ends = one(piece)
            ends = ends & seen
            columns = {name: np.where(seen[:, None], values, piece[name]) for name, values in found.items()}
            check_numbers(columns["w"], piece["w"], one)
            kept = ~(ends | among(keys, gone))
            moved = np.any([(columns[name] != piece[name]).any(1) for name in columns], axis=0)
            changed += int(np.count_nonzero(moved & kept))
            ended.append(keys[ends | (among(keys, gone))])
            if kept.any():
                rows = {name: values[kept] for name, values in {**piece, **columns}.items()}
                writer.write(batch_of(np.ascontiguousarray(rows["key"]), rows, schema))
    return WrittenTable(writer.rows, changed, np.concatenate(ended))


def among(keys: Keys, known: Keys) -> NDArray[np.bool_]:
    """Return which keys are among some that ascend."""
    if not len(known):
        return np.zeros(len(keys), np.bool_)
    at = np.searchsorted(known, keys).clip(0, len(known) - 1)
    found: NDArray[np.bool_] = known[at] == keys
    return found


def check_numbers(after: NDArray[np.float32], before: NDArray[np.float32], one: RowChange) -> None:
    """Refuse weights that are no number any more.

    Raises:
        StatementError: says of which table.
    """
    if not np.isfinite(after[np.isfinite(before)]).all():
        raise StatementError(
            f"The updates make weights of table {one.entry.name} NaN or infinite. Scale by less, or look at the update.",
            subject=Subject("APPLY"),
        )


def write_trials(draft: Draft, parent: Version, first: RowChange) -> bool:
    """Write what is known of features without a row, where an update forgets some of them; return whether one does.

    Their occurrences, which have keys alone, are all forgotten then.
    """
    if not any(one.trials for one in first.updates):
        return False
    schema, table = rows_schema(first.entry), RowTable(first.entry.name, first.entry.columns)
    batches = [(batch, piece_of(batch, table)) for batch in parent.trial_rows() if batch.num_rows]
    if batches:
        forget = first.of_trials
        with draft.trial_writer(first.entry, 0) as writer:
            for batch, piece in batches:
                writer.write(batch.filter(pa.array(~forget(piece)[1])).cast(schema))
    return True
