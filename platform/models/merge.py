"""MERGE MODEL: one version of several that learned on from one, each from rows of its own.

What becomes of rows is in merged_rows.py. Sources are taken in order of their identities: the order in which a statement names
them changes nothing.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...warehouse.checksums import NUM_SLICES
from ...warehouse.dense import read_dense, write_dense
from ...warehouse.draft import Draft
from ...warehouse.entries import MergedEntry, OriginEntry, TableEntry
from ...warehouse.manifest import CALIBRATED, DELTA, Manifest
from ...warehouse.models import Models
from ...warehouse.rows import rows_schema, slices_of
from ..errors import ModelError
from ..functions.base import RowTable
from ..ps.compiled.table_programs import Programs
from ..training.compiled import prepare_jax
from ..training.row_files.columns import batch_of
from .apply import RowChange, programs_of
from .fold import piece_of
from .merged_rows import MergeRule, MergeTally, merged_rows
from .version_files import VersionRows, check_text, reading, rows_of, version_of
from .vertices import refuse_vertices

WINDOW_ROWS = 1 << 21
Doubles = NDArray[np.float64]


class MergeSources(NamedTuple):
    """What is merged: the sources in order of identity, and the version that all go back to; None: they have none."""

    sources: Sequence[VersionRows]
    base: VersionRows | None

    @property
    def examples(self) -> list[int]:
        """How many examples each source has learned since."""
        before = 0 if self.base is None else self.base.manifest.learned.examples_total
        return [max(one.manifest.learned.examples_total - before, 0) for one in self.sources]

    @property
    def shares(self) -> Doubles:
        """The share of each source by examples; equal ones where none has learned any."""
        counts = np.array(self.examples, np.float64)
        return counts / counts.sum() if counts.sum() else np.full(len(counts), 1 / len(counts))

    @property
    def now(self) -> int:
        """The newest TIME that any has learned from."""
        return max(int(one.manifest.statistics.get("now", 0)) for one in self.sources)


def merge(
    models: Models, name: str, named: Sequence[tuple[str, int | None] | Path], rule: MergeRule, statement: str
) -> Manifest:
    """Make a version of a model of several.

    Args:
        named: models with their versions, and folders of exported ones.

    Raises:
        ModelError: sources differ in more than what they learned, go back to a version that is not here, or are damaged.
    """
    with ExitStack() as stack:
        found = [stack.enter_context(reading(models, name, one)) for one in named]
        for one in found:
            check_text(one.manifest)
        for one in found[1:]:
            check_alike(found[0], one)
        check_once(found)
        owners = (name, *(one[0] for one in named if not isinstance(one, Path)))
        merging = MergeSources(sorted(found, key=lambda one: one.manifest.identity), base_of(models, owners, found))
        check_base(merging, rule)
        prepare_jax()
        programs = programs_of(found[0].manifest)
        with models.begin(name, begun(models, name, merging, statement)) as draft:
            tally = MergeTally(len(found))
            for entry in draft.manifest.tables:
                first = entry is draft.manifest.tables[0]
                write_table(draft, merging, entry, programs[entry.name], rule, tally if first else None)
            write_arrays(draft, merging)
            draft.commit(ended(draft.manifest, merging, tally))
            return draft.manifest


def check_alike(one: VersionRows, other: VersionRows) -> None:
    """Refuse sources whose rows mean different things.

    Raises:
        ModelError: names the first difference.
    """
    a, b = one.manifest, other.manifest
    pairs = {
        "algorithm": (a.algorithm.name, b.algorithm.name),
        "options of the algorithm": (dict(a.algorithm.options), dict(b.algorithm.options)),
        "operators": (list(a.operators), list(b.operators)),
        "labels": (a.roles.labels, b.roles.labels),
        "classes": (a.roles.classes, b.roles.classes),
        "slots": ([slot.name for slot in a.slots], [slot.name for slot in b.slots]),
        "slots' types and numbers": (list(a.slots), list(b.slots)),
        "tables and floats of a row": ([(t.name, t.dim) for t in a.tables], [(t.name, t.dim) for t in b.tables]),
        "columns of rows": ([dict(t.columns) for t in a.tables], [dict(t.columns) for t in b.tables]),
        "dense parameters": (list(a.dense), list(b.dense)),
        "side vectors": (list(a.vectors), list(b.vectors)),
    }
    for what, (mine, theirs) in pairs.items():
        if mine != theirs:
            raise ModelError(
                f"MERGE MODEL needs sources of one kind; they differ in {what}: {one.name} has {mine}, {other.name} has "
                f"{theirs}. Merge versions that were continued from one version."
            )


def check_once(found: Sequence[VersionRows]) -> None:
    """Refuse a source that another one, or a second mention, has in it: its changes would count twice.

    Raises:
        ModelError: names both.
    """
    for number, one in enumerate(found):
        for other in (*found[:number], *found[number + 1 :]):
            inside = {entry.identity for entry in other.manifest.learned.origin.merged}
            if one.manifest.identity in inside or (one.manifest.identity == other.manifest.identity and one is not other):
                what = f"{one.name} has been merged into {other.name} already, or is the same version"
                raise ModelError(f"{what}: its changes would count twice. Leave one of them out.")


def base_of(models: Models, owners: Sequence[str], found: Sequence[VersionRows]) -> VersionRows | None:
    """Return the newest version that all sources go back to, one of them perhaps; None where they have none in common.

    Raises:
        ModelError: it is in none of the models.
    """
    lines = [(*one.manifest.learned.origin.lineage, one.manifest.identity) for one in found]
    common = [identity for identity in lines[0] if all(identity in line for line in lines[1:])]
    if not common:
        return None
    # What came after an older one would count once for each source; a single one may go back to any.
    asked = common[-1:] if len(found) > 1 else common[::-1]
    version = next(filter(None, (version_of(models, owners, identity) for identity in asked)), None)
    if version is None:
        if (own := next((one for one in found if one.manifest.identity == common[-1]), None)) is not None:
            return own
        raise ModelError(
            f"The sources go back to a version that is in none of the models {', '.join(dict.fromkeys(owners))}. IMPORT MODEL "
            "it first, or merge into the model that has it."
        )
    return rows_of(version, f"{version.manifest.model} VERSION {version.number}")


def check_base(merging: MergeSources, rule: MergeRule) -> None:
    """Refuse what cannot be merged row by row.

    Raises:
        ModelError: says what.
    """
    first, many = merging.sources[0].manifest, len(merging.sources) > 1
    if many and any(one.stored("package") for one in merging.sources):
        name = first.algorithm.name
        raise ModelError(f"MERGE MODEL adds changes of rows, and {name} is another package's model. TRAIN one of all rows.")
    if many and any(one.stored("tree") for one in merging.sources):
        raise ModelError(
            "MERGE MODEL keeps one tree, and sites that make trees anew have different ones. TRAIN one of all rows."
        )
    scaled = set(first.roles.labels) & set(first.statistics.get("scaled", ()))
    if many and scaled:
        raise ModelError(
            f"The label {', '.join(sorted(scaled))} is learned in standard deviations, which differ between sources. Divide it "
            "by a constant in the query, and take a loss that learns it as it is."
        )
    if many:
        refuse_vertices(first, "MERGE MODEL adds changes of weights")
    seeds = {one.manifest.seed for one in merging.sources}
    if merging.base is None and rule.using == "weights" and len(seeds) > 1:
        raise ModelError(
            f"The sources go back to no common version, and their weights were drawn with the seeds {sorted(seeds)}. Continue "
            "all of them from one version, or merge USING state."
        )


def begun(models: Models, name: str, merging: MergeSources, statement: str) -> Manifest:
    """Return the manifest that a merged version begins with."""
    base, first = merging.base, merging.sources[0].manifest
    origin = first if base is None else base.manifest
    own = base is not None and any(version.folder == base.folder for version in models.present(name))
    made = dataclasses.replace(
        origin,
        statement=statement,
        parent=origin.version if own else None,
        base=None,
        requires=tuple(one for one in origin.requires if one not in (DELTA, CALIBRATED)),
        calibrators=(),
        splits=(),
        metrics={},
        evaluation={},
        validation={},
        finished=None,
        seconds=None,
    )
    lineage = () if base is None else (*origin.learned.origin.lineage, origin.identity)
    merged = tuple(MergedEntry(one.name, one.manifest.identity) for one in merging.sources)
    return made.having_learned(origin=OriginEntry(lineage=lineage, merged=merged))


def write_table(
    draft: Draft, merging: MergeSources, entry: TableEntry, programs: Programs, rule: MergeRule, tally: MergeTally | None
) -> None:
    """Write the merged rows of a table, window by window of slices."""
    now, table, schema = merging.now, RowTable(entry.name, entry.columns), rows_schema(entry)
    inputs = [*merging.sources, *([] if merging.base is None else [merging.base])]
    reads = [RowChange(one.manifest, entry, programs, (), now) for one in inputs]
    last = RowChange(dataclasses.replace(draft.manifest, statistics={"now": now}), entry, programs, ())
    with draft.writer(entry) as writer:
        for window in windows(inputs):
            found = [gathered(one, read, table, window, programs) for one, read in zip(inputs, reads, strict=True)]
            if not any(len(one["key"]) for one in found):
                continue
            sources, base = found[: len(merging.sources)], found[len(merging.sources) :]
            rows = merged_rows(sources, base[0] if base else None, merging.shares, entry, programs, rule, tally)
            for start in range(0, len(rows["key"]), 1 << 16):
                piece = {name: values[start : start + (1 << 16)] for name, values in rows.items()}
                columns, _ = last(piece)
                writer.write(batch_of(np.ascontiguousarray(piece["key"]), {**piece, **columns}, schema))


def windows(inputs: Sequence[VersionRows]) -> Iterator[range]:
    """Cut all slices into runs with at most about WINDOW_ROWS rows of all inputs."""
    rows = sum(one.manifest.learned.rows for one in inputs)
    count = min(NUM_SLICES, max(1, -(-rows // WINDOW_ROWS)))
    bounds = [NUM_SLICES * i // count for i in range(count + 1)]
    return (range(start, stop) for start, stop in itertools.pairwise(bounds))


def gathered(one: VersionRows, read: RowChange, table: RowTable, window: range, programs: Programs) -> dict[str, NDArray[Any]]:
    """Return the rows of a window by ascending key, brought up to the newest TIME where operators look at it."""
    pieces = []
    for batch in one.rows(table.name, window):
        piece = dict(piece_of(batch, table))
        if programs.chain.needs_time and batch.num_rows:
            piece |= read(piece)[0]
        at = slices_of(batch)
        own = (at >= window.start) & (at < window.stop)
        pieces.append({name: values[own] for name, values in piece.items()})
    if not pieces:
        return {"key": np.empty(0, np.uint64)}
    joined = {name: np.concatenate([piece[name] for piece in pieces]) for name in pieces[0]}
    order = np.argsort(joined["key"])
    return {name: values[order] for name, values in joined.items()}


def write_arrays(draft: Draft, merging: MergeSources) -> None:
    """Write the dense parameters and their state, merged by examples."""
    if not draft.manifest.dense:
        return
    arrays = [read_dense(one.stored("dense")) for one in merging.sources]
    before = {} if merging.base is None else read_dense(merging.base.stored("dense"))
    merged = []
    for name, column in arrays[0]:
        own = [found[name, column].astype(np.float64) for found in arrays]
        start = before[name, column].astype(np.float64) if (name, column) in before else np.zeros_like(own[0])
        changes = [share * (one - start) for one, share in zip(own, merging.shares, strict=True)]
        merged.append((name, column, (start + np.sum(changes, axis=0)).astype(np.float32), 0))
    write_dense(draft.dense, 0, merged)


def ended(manifest: Manifest, merging: MergeSources, tally: MergeTally) -> Manifest:
    """Return the manifest of what was merged: statistics, the base rate, and what is told of the sources."""
    base = None if merging.base is None else merging.base.manifest
    examples = sum(merging.examples)
    before = 0 if base is None else base.learned.examples_total
    rates = [(one.manifest.learned.base_rate, one.manifest.learned.examples_total) for one in merging.sources]
    rate = None
    if all(one is not None for one, _ in rates):
        start = 0.0 if base is None or base.learned.base_rate is None else base.learned.base_rate * before
        positives = start + sum((one or 0.0) * count - start for one, count in rates)
        rate = min(max(positives / max(before + examples, 1), 0.0), 1.0)
    entries = [
        MergedEntry(one.name, one.manifest.identity, learned, rows, only, rows - only, share, distance)
        for one, learned, rows, only, share, distance in zip(
            merging.sources,
            merging.examples,
            tally.rows.tolist(),
            tally.only.tolist(),
            merging.shares.tolist(),
            np.sqrt(tally.moved).tolist(),
            strict=True,
        )
    ]
    statistics = {**manifest.statistics, "now": merging.now, "scaler": scaler_of(merging)}
    made = dataclasses.replace(manifest, statistics=statistics).having_origin(merged=tuple(entries))
    return made.having_learned(examples=examples, examples_total=before, rows=tally.merged, base_rate=rate)


def scaler_of(merging: MergeSources) -> dict[str, list[float]]:
    """Return the statistics of continuous slots, of all values that any source has seen since."""

    def sums(one: VersionRows) -> Doubles:
        kept = one.manifest.statistics["scaler"]
        count, mean, squares = (np.array(kept[name], np.float64) for name in ("count", "mean", "squares"))
        return np.stack([count, count * mean, squares + count * mean * mean])

    found = [sums(one) for one in merging.sources]
    if len(found) == 1:
        return dict(merging.sources[0].manifest.statistics["scaler"])
    start = np.zeros_like(found[0]) if merging.base is None else sums(merging.base)
    count, total, squares = start + np.sum([one - start for one in found], axis=0)
    mean = total / np.maximum(count, 1)
    return {"count": count.tolist(), "mean": mean.tolist(), "squares": (squares - count * mean * mean).clip(0).tolist()}
