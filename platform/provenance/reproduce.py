"""REPRODUCE MODEL: a version made again in a scratch folder, and compared with what it is."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from importlib.metadata import version as version_of
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from ...warehouse.durable import link_tree
from ...warehouse.folders import COMMITTED
from ...warehouse.manifest import FILE
from ...warehouse.models import Models
from ...warehouse.scratch import scratch
from ..display import plural
from ..engines.base import Engine
from ..errors import ModelError, TrainingError
from ..training.clauses.release import RELEASE
from ..training.plan import Plan
from ..training.provenance.environment import environment
from ..training.provenance.sources import sources_of
from ..training.start import train
from .shown import sha256

if TYPE_CHECKING:
    from ...warehouse.entries import SourceEntry
    from ...warehouse.manifest import Manifest
    from ...warehouse.version import Version
    from ..progress import Reporter

SCHEMA = pa.schema(
    [("kind", pa.string()), ("name", pa.string()), ("expected", pa.string()), ("found", pa.string()), ("equal", pa.bool_())]
)
CLOSE = 1e-5
"""How far weights may be apart, relative to the largest, where another package or processor computed them."""
RUNS = 3
"""Of a training whose workers run freely, whose metrics are compared with the spread of so many."""
CERTAIN = 9.92
"""Student's t of RUNS - 1 degrees of freedom at 99 %, two-sided."""
COMPARED = ("auc", "logloss", "mae", "rmse", "recall")


class Compared(NamedTuple):
    """Something of a version beside the same of another one."""

    kind: str
    name: str
    expected: str | None
    found: str | None
    equal: bool


def reproduce(version: Version, plan: Plan, engine: Engine, models: Models, reporter: Reporter) -> pa.Table:
    """Train a version again, and return what was compared, row by row; the last one says how equal it is.

    Args:
        plan: of its training, from its manifest.

    Raises:
        StatementError, ModelError: it cannot be made again.
        TrainingError: it differs; its notes say which of what it was made from has changed.
    """
    manifest = version.manifest
    check(version, models)
    before = [*sources(manifest, plan, engine), *environments(manifest)]
    changed = [one for one in before if not one.equal]
    for one in changed:  # first, so that a difference has a cause
        reporter.note(f"The {one.kind} {one.name} is another one: {one.expected} then, {one.found} now.")
    free = plan.settings.sync not in ("bsp",) and manifest.sizes.workers > 1
    again = pinned(plan, manifest)
    with scratch(models.warehouse) as folder:
        made = []
        for run in range(RUNS if free else 1):
            copies = Models(folder / str(run))
            with_ancestors(version, models, copies)
            train(again, engine, copies, reporter)
            made.append(max(copies.versions(manifest.model), key=lambda one: one.number))
        if free:
            found, result = spread(manifest, made), f"within the spread of {RUNS} runs"
        else:
            found, result = compared(version, made[0], [one for one in changed if one.kind != "source"])
    differs = [one for one in found if not one.equal]
    if differs:
        raise not_equal(version, differs, changed)
    last = Compared("result", f"{manifest.model} v{version.number}", None, result, True)
    return pa.Table.from_pylist([one._asdict() for one in (*before, *found, last)], SCHEMA)


def check(version: Version, models: Models) -> None:
    """Refuse versions that no statement makes again.

    Raises:
        ModelError: says why, and what to do.
    """
    manifest, name = version.manifest, f"Version {version.number} of {version.manifest.model}"
    if not manifest.learned.examples or manifest.learned.origin.merged:
        made_of = f"its parent, version {manifest.parent}" if manifest.parent else "the versions that it was made of"
        raise ModelError(f"{name} was not made by a training. REPRODUCE {made_of}.")
    if manifest.stream.name is not None:
        raise ModelError(
            f"{name} learned from the stream {manifest.stream.name}, whose messages are read once. Keep what arrives in a "
            "table, and TRAIN on that, to make versions again."
        )
    if version.is_delta:
        raise ModelError(f"{name} has only the rows that it changed. REPRODUCE a version that has all rows.")
    if manifest.parent is not None:
        try:
            models.find(manifest.model, manifest.parent)
        except ModelError as error:
            raise ModelError(
                f"{name} continues version {manifest.parent}, which no longer exists: keep ancestors as long as you want to "
                "make a version again."
            ) from error


def pinned(plan: Plan, manifest: Manifest) -> Plan:
    """Return the plan with what rules decided by cores, without a gate or a name."""
    sizes, settings = manifest.sizes, dataclasses.replace(plan.settings, once=None)
    if sizes.shards:
        settings = dataclasses.replace(
            settings, batch_size=sizes.batch_size, shards=sizes.shards, workers=sizes.workers, target=None, price=None
        )
    return dataclasses.replace(plan, settings=settings, replace=False).having(RELEASE, None)


def with_ancestors(version: Version, models: Models, copies: Models) -> None:
    """Give the version that one goes on from, and what that is read from, a second place."""
    manifest = version.manifest
    if manifest.parent is None:
        return
    for one in models.versions(manifest.model):
        if one.number <= manifest.parent and one.manifest.status in COMMITTED:
            to = copies.folder / one.folder.parent.name / one.folder.name
            to.mkdir(parents=True)
            (to / FILE).write_bytes((one.folder / FILE).read_bytes())
            for path in one.folder.iterdir():
                if path.is_dir():
                    link_tree(path, to / path.name)


def sources(manifest: Manifest, plan: Plan, engine: Engine) -> Iterator[Compared]:
    """Compare what the queries read then with what they would read now."""
    now = {(one.kind, one.name): one for one in sources_of(plan, engine)}
    for source in manifest.sources:
        found = now.get((source.kind, source.name))
        expected, digest = described(source), None if found is None else described(found)
        yield Compared("source", source.name, expected, digest or "gone", expected == digest)


def described(source: SourceEntry) -> str:
    """Return what tells a source from another of its name."""
    return source.digest or source.snapshot or "known only by name"


def environments(manifest: Manifest) -> Iterator[Compared]:
    """Compare packages, builds and the processor then with those now."""
    here = {"xpsql": version_of("xpsql"), **environment()}
    for name, expected in manifest.environment.items():
        yield Compared("environment", name, expected, here.get(name), expected == here.get(name))


def compared(version: Version, made: Version, elsewhere: list[Compared]) -> tuple[list[Compared], str]:
    """Compare files and metrics of two versions, and say how equal they are; where something else computed them, weights may be
    CLOSE.
    """
    manifest, found = version.manifest, list[Compared]()
    theirs = {file.path: "\n".join(file.blocks) for file in made.manifest.files or ()}
    same = True
    for file in manifest.files or ():
        if file.path.startswith("profile/"):  # counts of rows, which say nothing of the model
            continue
        mine, other = "\n".join(file.blocks), theirs.get(file.path)
        same = same and mine == other
        found.append(Compared("file", file.path, short(mine), None if other is None else short(other), mine == other))
    if same:
        return found, "equal to the bit"
    tables = [rows_compared(version, made, table.name) for table in manifest.tables]
    if elsewhere and all(one.close for one in tables):
        apart = max(one.apart for one in tables)
        reason = ", ".join(f"another {one.name}" for one in elsewhere)
        return [one._replace(equal=True) for one in found], f"equal within {apart:.2g} ({reason})"
    rows = [one.differing for one in tables if one.differing is not None]
    return [*rows, *(one for one in found if not one.equal)], ""


class RowsCompared(NamedTuple):
    """The rows of a table of two versions.

    Attributes:
        apart: the largest difference, relative to the largest float; infinite where keys differ.
        differing: what differs, in words; None: nothing.
    """

    apart: float
    differing: Compared | None

    @property
    def close(self) -> bool:
        return self.apart <= CLOSE


def rows_compared(version: Version, made: Version, table: str) -> RowsCompared:
    """Compare the rows of a table, by key."""
    one, other = (sorted_rows(each, table) for each in (version, made))
    keys, others = one["key"].to_numpy(), other["key"].to_numpy()
    name = f"table {table}"
    if len(keys) != len(others) or (keys != others).any():
        lacking = np.setxor1d(keys, others)
        what = Compared("rows", name, f"{len(keys):,} rows", f"{len(others):,} rows, {len(lacking):,} keys of one alone", False)
        return RowsCompared(float("inf"), what)
    wrong, apart = np.zeros(len(keys), np.bool_), 0.0
    for field in one.schema:
        mine, theirs = (numbers(rows[field.name]) for rows in (one, other))
        wrong |= (mine != theirs).any(axis=1)
        if mine.dtype == np.float32 and mine.size:
            size = max(float(np.abs(mine).max()), 1e-30)
            apart = max(apart, float(np.abs(mine - theirs).max()) / size)
    if not wrong.any():
        return RowsCompared(apart, None)
    first = int(np.argmax(wrong))
    slots = {slot.number: slot.name for slot in version.manifest.slots}
    slot = slots.get(int(one["slot"][first].as_py()), "")
    count = int(wrong.sum())
    text = f"differs: {count:,} of {len(keys):,} {plural('row', len(keys))}, first key {keys[first]}, slot {slot}"
    return RowsCompared(apart, Compared("rows", name, f"{len(keys):,} rows", text, False))


def sorted_rows(version: Version, table: str) -> pa.Table:
    return pa.Table.from_batches(version.rows(table)).combine_chunks().sort_by("key")


def numbers(column: pa.ChunkedArray) -> Any:
    """Return a column as an array of lines: floats of a row, or the bytes of its state."""
    array = column.combine_chunks()
    if pa.types.is_fixed_size_list(array.type):
        return array.flatten().to_numpy(zero_copy_only=False).reshape(len(array), -1)
    if pa.types.is_fixed_size_binary(array.type):
        width = array.type.byte_width
        return np.frombuffer(b"".join(array.to_pylist()), np.float32).reshape(len(array), width // 4)
    return array.to_numpy(zero_copy_only=False).reshape(-1, 1)


def spread(manifest: Manifest, made: list[Version]) -> list[Compared]:
    """Compare the metrics of a version with those of several runs, no two of which are equal. One may lie where another run of
    the same training does in 99 of 100 cases (Student's prediction interval), or within what chance in the rows does to a
    metric: half of 1 / sqrt(examples) at most.
    """
    runs, found = len(made), []
    wide = CERTAIN * (1 + 1 / runs) ** 0.5
    least = max(1e-3, 0.5 / max(1, manifest.learned.examples) ** 0.5)
    for name in COMPARED:
        values = [value for one in made if (value := one.manifest.metrics.get(name)) is not None]
        expected = manifest.metrics.get(name)
        if expected is None or len(values) < runs:
            continue
        middle = float(np.mean(values))
        room = max(wide * float(np.std(values, ddof=1)), least * abs(middle))
        inside = abs(expected - middle) <= room
        found.append(Compared("metric", name, f"{expected:.6g}", f"{min(values):.6g} to {max(values):.6g}", inside))
    return found


def not_equal(version: Version, differs: list[Compared], changed: list[Compared]) -> TrainingError:
    """Return the error of a version that came out otherwise."""
    first = differs[0]
    what = "; ".join(f"{one.name}: {one.found}, expected {one.expected}" for one in differs[:3])
    error = TrainingError(
        f"Version {version.number} of {version.manifest.model} cannot be made again as it was: "
        f"{first.found if first.kind == 'rows' else what}."
    )
    for one in changed:
        error.add_note(f"The {one.kind} {one.name} has changed: {one.expected} then, {one.found} now.")
    if not changed:
        error.add_note("What it was made from is the same as far as is known: does its query depend on time, chance or order?")
    return error


def short(blocks: str) -> str:
    """Return a digest of a file's blocks."""
    return sha256(blocks.encode())[:16]
