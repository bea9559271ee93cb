"""The first look at the rows of USING auto: what each column is, and what would mislead a search."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ....warehouse.files import VersionFiles
from ...engines.repeats import expanded
from ...input.encoder import Encoder
from ...input.kinds.base import BagKind
from ...input.splits import CHUNK_ROWS
from ..compiled import prepare_jax
from ..metrics.alone import BINS, Codes, ToldAlone, binned, bins, categories, told_alone
from ..preparation.base import Mode, Preparation
from ..preparation.stages import checked, prepared
from .screen import ScreenedRows

if TYPE_CHECKING:
    from ....algorithms.chunk import Chunk
    from ...engines.base import Engine
    from ...input.columns import Columns
    from ..plan import Plan
    from ..prepared import Prepared

MOST_ROWS = 200_000
"""Rows of the training part that are looked at, the first ones of each split."""
NEAR, ENOUGH_ROWS = 0.95, 1000
SORTED = 10.0
"""Standard deviations from which on labels come in runs."""
REPEATED = 0.05
FEWEST_VALUES, SHARED = 20, 0.5
"""Of an array that is a history of another column: how many values it has, and the share of them that this column has."""


class FirstLook(NamedTuple):
    """What the rows say before anything is trained.

    Attributes:
        prepared: the training of trial 0, as far as it is prepared.
        rows: how many are learned, those held out left out.
        sample: of them, in order; of classes the label is whether it is the most frequent one.
        classes: whether labels are classes.
        numbers: the bins of numbers in the sample: of continuous columns, and of whole numbers, which are categories.
        leaks: columns that alone tell the label.
        arrays: slots with several values a row.
        histories: of them, those whose values are a slot's, too, and that slot: what a user had, and what is offered.
        needless: columns that tell nothing that recurs: one value a row, or the values of another column. With the reason.
        notes: for the user.
        unordered: rows are not in order of TIME.
        sorted: labels come in runs.
    """

    prepared: Prepared
    rows: int
    sample: ScreenedRows
    classes: bool
    numbers: Mapping[str, Codes]
    leaks: Mapping[str, ToldAlone]
    arrays: tuple[str, ...]
    histories: Mapping[str, str]
    needless: Mapping[str, str]
    notes: tuple[str, ...]
    unordered: bool
    sorted: bool


def looked(plan: Plan, engine: Engine, folder: Path, note: Callable[[str], None]) -> FirstLook:
    """Look at the rows that a plan learns from, which can be read in place.

    Raises:
        StatementError: the plan cannot be trained.
        DataError: a row cannot be learned from.
    """
    prepare_jax()
    given = Preparation(Mode.EXPLAIN, plan, engine, engine.tasks, None, engine.scan(plan.query), None, note, quick=True)
    made = prepared(checked(given), VersionFiles(folder))
    table = first_rows(made)
    chunk = encoded(made, table)
    codes, numbers = categories(chunk, made.columns), bins(chunk, made.columns)
    labels = chunk.label[0].astype(np.float64)
    of_classes = made.columns.classes is not None
    binary = not of_classes and bool(np.isin(labels, (0.0, 1.0)).all())
    told = {name: told_alone(one, labels) for name, one in {**codes, **numbers}.items()} if binary else {}
    numbers |= whole_numbers(table, made.columns)
    target = (labels == np.bincount(labels.astype(np.int64)).argmax()).astype(np.float64) if of_classes else labels
    one_or_none = binary or of_classes
    sample = ScreenedRows(tuple(codes), [*codes.values()], *scored_by_mean(target, one_or_none), not one_or_none)
    needless = {**one_each(codes, len(labels)), **twins(codes)}
    notes = [f"Column {name}: {why}." for name, why in needless.items()]
    notes += repeated(chunk, codes, labels)
    return FirstLook(
        made,
        made.counts.total,
        sample,
        of_classes,
        numbers,
        {name: one for name, one in told.items() if one is not None and one.leaks},
        tuple(slot.column for slot, _ in made.columns.of(BagKind)),
        histories(table, made.columns),
        needless,
        tuple(notes),
        bool((np.diff(chunk.time.astype(np.int64)) < 0).mean() > 0.01) if len(labels) > 1 else False,
        binary and runs(labels) > SORTED,
    )


def scored_by_mean(labels: NDArray[np.float64], binary: bool) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return labels and the score of each row by a model that knows the mean alone.

    Each half has its own, so that columns are not blamed, or praised, for a label that becomes rarer.
    """
    means = np.concatenate([np.full(len(part), part.mean()) for part in np.split(labels, [len(labels) // 2]) if len(part)])
    if not binary:
        spread = float(labels.std()) or 1.0
        return labels / spread, means / spread
    means = np.clip(means, 1e-6, 1 - 1e-6)
    return labels, np.log(means / (1 - means))


def first_rows(made: Prepared) -> pa.Table:
    """Return the first rows of each split."""
    each = -(-MOST_ROWS // max(len(made.splits), 1))
    pieces = [piece for split in made.splits for piece in beginning(made, split, each)]
    return expanded(pa.concat_tables(pieces)).unify_dictionaries().combine_chunks()


def encoded(made: Prepared, table: pa.Table) -> Chunk:
    encoder = Encoder(made.columns, made.recipe.algorithm, made.plan.settings.seed, compact=False)
    return encoder.measured(table, lambda row: f"row {row} of those looked at first")


def beginning(made: Prepared, split: object, rows: int) -> Iterator[pa.Table]:
    for table in made.scan.read(split, made.columns.learned, CHUNK_ROWS):  # type: ignore[arg-type]
        yield table.slice(0, rows)
        rows -= table.num_rows
        if rows <= 0:
            return


def histories(table: pa.Table, columns: Columns) -> dict[str, str]:
    """Return the arrays most of whose values are those of a slot, too, each with that slot; a slot has one array."""
    found: dict[str, tuple[float, str]] = {}
    scalars = {slot.column: pc.unique(plain(table[slot.column])) for slot in columns.scalar}
    for slot, _ in columns.of(BagKind):
        if not pa.types.is_list(table.schema.field(slot.column).type):
            continue
        values = pc.unique(plain(pc.list_flatten(table[slot.column]))).drop_null()
        for other, own in scalars.items():
            if len(values) < FEWEST_VALUES or values.type != own.type:
                continue
            share = float(pc.mean(pc.is_in(values, value_set=own)).as_py())
            if share > SHARED:
                found[other] = max(found.get(other, (0.0, "")), (share, slot.column))
    return {array: other for other, (_, array) in found.items()}


def whole_numbers(table: pa.Table, columns: Columns) -> dict[str, Codes]:
    """Return the bins of columns of whole numbers with many values."""
    found = {}
    for slot in columns.scalar:
        values = plain(table[slot.column])
        if pa.types.is_integer(values.type) and pc.count_distinct(values).as_py() > BINS:
            found[slot.column] = binned(values.cast(pa.float64(), safe=False).to_numpy())  # NULL is no number
    return found


def plain(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return values without a dictionary."""
    return values.cast(values.type.value_type) if pa.types.is_dictionary(values.type) else values


def one_each(codes: Mapping[str, Codes], rows: int) -> dict[str, str]:
    """Return the columns with nearly one value a row."""
    found = {}
    for name, one in codes.items():
        present = int(np.count_nonzero(one >= 0))
        if rows >= ENOUGH_ROWS and present and int(one.max()) + 1 > NEAR * present:
            found[name] = f"{int(one.max()) + 1:,} values in {present:,} rows, nearly one for each"
    return found


def twins(codes: Mapping[str, Codes]) -> dict[str, str]:
    """Return the columns whose values another column before them has under other names."""
    found: dict[str, str] = {}
    names = [*codes]
    sizes = {name: int(one.max(initial=-1)) for name, one in codes.items()}
    for place, name in enumerate(names):
        for other in names[:place]:
            if other not in found and sizes[name] == sizes[other] > 0 and alike(codes[name], codes[other], sizes[name] + 2):
                found[name] = f"the same as {other}, value for value"
                break
    return found


def alike(one: Codes, other: Codes, size: int) -> bool:
    """Return whether two columns tell the same: each value of one goes with one of the other."""
    meets = np.full(size, -2, np.int32)
    meets[one] = other
    back = np.full(size, -2, np.int32)
    back[other] = one
    return bool((meets[one] == other).all() and (back[other] == one).all())


def repeated(chunk: Chunk, codes: Mapping[str, Codes], labels: NDArray[np.float64]) -> list[str]:
    """Say how many later rows equal an earlier one in all columns, label and time."""
    rows = len(labels)
    if rows < ENOUGH_ROWS:
        return []
    hashed = chunk.time.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + labels.view(np.uint64)
    parts = [one.astype(np.int64).view(np.uint64) for one in codes.values()]
    for part in [*parts, *(line.view(np.uint32).astype(np.uint64) for line in chunk.dense)]:
        hashed = (hashed ^ part) * np.uint64(0xBF58476D1CE4E5B9)
        hashed ^= hashed >> np.uint64(29)
    share = float(np.isin(hashed[rows // 2 :], hashed[: rows // 2]).mean())
    if share <= REPEATED:
        return []
    return [f"{share:.0%} of the later rows equal an earlier row in all columns: rows held out may have been learned."]


def runs(labels: NDArray[np.float64]) -> float:
    """Return by how many standard deviations labels change less often than by chance.

    Source: Wald and Wolfowitz, "On a Test Whether Two Samples are from the Same Population", 1940.
    """
    ones = float(labels.sum())
    zeros, rows = len(labels) - ones, len(labels)
    if not ones or not zeros:
        return 0.0
    mean = 2 * ones * zeros / rows + 1
    spread = math.sqrt(max((mean - 1) * (mean - 2) / (rows - 1), 1e-9))
    return float((mean - (1 + np.count_nonzero(np.diff(labels)))) / spread)
