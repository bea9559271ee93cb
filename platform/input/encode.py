"""Encoding (hashing trick without buckets): Arrow columns become keys.

A chunk's distinct features are hashed once; its examples refer to them by small codes, so that finding a batch's unique keys
is an array look-up. Equal keys of two slots (WITH share) have one code.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...algorithms.blocks.base import InChunk, SlotBlock, every
from ...algorithms.blocks.histories import HISTORIES
from ...algorithms.chunk import Bag, Chunk, Facets, RowRuns
from ..engines.repeats import expanded, has_runs, lengths_of, values_of
from ..errors import DataError
from ..ps.keys import feature_keys, slot_seed
from ..reserved import INTERCEPT_NUMBER
from .columns import INTERCEPT, Classes, Columns, Record
from .crossed.encoding import Crossing
from .kinds.base import BagKind, DenseKind, Encoding, ScalarKind
from .numbers import floats, seconds
from .slot import Slot
from .vocabulary import Codes, Vocabulary


def row_in_table(row: int) -> str:
    """Return the words for a row of a table that has no file."""
    return f"row {row}"


def encode(
    table: pa.Table,
    columns: Columns,
    with_labels: bool,
    where: Callable[[int], str] = row_in_table,
    runs_apart: bool = False,
) -> Chunk:
    """Encode a chunk of rows.

    Args:
        table: columns.learned, or columns.inputs when scoring.
        columns: slots and roles.
        with_labels: read label, weight and time too.
        where: names a row of the table, for messages.
        runs_apart: what the table stores as runs has its place in the chunk as runs, too.

    Raises:
        DataError: a vector whose length differs from the others', fields of a history that differ in length in a row, or a
            cross with too many values.
    """
    rows = table.num_rows
    table, repeats = parted(columns.filled(table), columns)
    vocabulary = Vocabulary()
    numbers = {slot.name: slot.number for slot in columns.slots}
    encoding = Encoding(vocabulary, numbers, columns.null_features, columns.logarithmic)
    scalar, lines = encode_lines(table, rows, repeats, columns, encoding)
    runs = repeats.runs(columns) if runs_apart else None
    bags = bags_of(table, repeats, columns, encoding, lines, expand=runs is None)
    blocks = {
        block.name: tuple(in_chunk(table, repeats, block, record, encoding, where, expand=runs is None) for record in records)
        for block, records in columns.blocks
    }
    dense, dense_codes = encode_dense(table, repeats, columns, encoding)
    offered = [vocabulary.add(np.array([slot_seed(slot.name)], np.uint64), slot.number) for slot in columns.offered]
    offered_codes = np.array(offered, np.int32)
    keys, slots, final = vocabulary.finish()
    return Chunk(
        keys,
        slots,
        scalar if final is None else final.take(scalar, mode="wrap"),
        bags if final is None else tuple(bag._replace(codes=final.take(bag.codes)) for bag in bags),
        dense,
        dense_codes if final is None else final.take(dense_codes),
        offered_codes if final is None else final.take(offered_codes),
        labels_of(table, columns) if with_labels else np.zeros((0, rows), np.float32),
        weights_of(table, columns) if with_labels else np.ones(rows, np.float32),
        seconds(table.column(columns.time), columns.time) if with_labels and columns.time else np.zeros(rows, np.uint32),
        facets_of(table, columns) if with_labels and (columns.grouped or columns.by) else None,
        blocks if final is None else every(blocks, lambda one: one.coded(final)),
        runs=runs,
    )


class Repeats(NamedTuple):
    """Run-length encoded columns: values that a table stores once for several rows.

    Attributes:
        values: the columns of slots that are stored so, a row for each run.
        lengths: int64[runs], how many rows each has.
    """

    values: pa.Table
    lengths: NDArray[np.int64]

    def has(self, slot: Slot) -> bool:
        """Return whether a slot is stored as runs."""
        return not slot.members and slot.column in self.values.column_names

    @property
    def owners(self) -> NDArray[np.intp]:
        """The run of each row, intp[rows]."""
        return np.repeat(np.arange(len(self.lengths)), self.lengths)

    @property
    def starts(self) -> NDArray[np.int64]:
        """The first row of each run, int64[runs]."""
        return np.cumsum(self.lengths) - self.lengths

    def runs(self, columns: Columns) -> RowRuns | None:
        """Return the runs in the form of a chunk, with the intercept in common; None where no slot has any."""
        common = [self.has(slot) for slot in columns.scalar]
        bags = tuple(number for number, slot in enumerate(columns.bags) if self.has(slot))
        histories = tuple(number for number, group in enumerate(columns.records(HISTORIES)) if self.has(group[0][0]))
        if not (any(common) or bags or histories):
            return None
        return RowRuns(self.starts, (*common, *([True] if columns.intercept else [])), bags, histories, held=True)


NO_REPEATS = Repeats(pa.table({}), np.empty(0, np.int64))


def parted(table: pa.Table, columns: Columns) -> tuple[pa.Table, Repeats]:
    """Split a table into columns with a value for each row, and the slots that it stores once for several rows.

    Where runs have fewer than two rows on average, or slots are crossed, each row has its values.
    """
    stored = {name for name, column in zip(table.column_names, table.columns, strict=True) if has_runs(column)}
    kept = stored - {*columns.labels, columns.weight, columns.time, columns.group, columns.by}
    for block, records in columns.blocks:
        for fields in ({slot.column for slot, _ in record} for record in records):
            kept -= fields if not (block.once and fields <= kept) else set()
    apart = sorted(kept & {slot.column for slot in columns.slots})
    if not apart or columns.crosses or table.column(0).num_chunks != 1:
        return expanded(table), NO_REPEATS
    runs = [table.column(name).chunk(0) for name in apart]
    lengths = lengths_of(runs[0])
    if 2 * len(lengths) > table.num_rows:
        return expanded(table), NO_REPEATS
    return expanded(table.drop_columns(apart)), Repeats(pa.table(list(map(values_of, runs)), names=apart), lengths)


def encode_lines(
    table: pa.Table, rows: int, repeats: Repeats, columns: Columns, encoding: Encoding
) -> tuple[Codes, dict[str, Codes]]:
    """Encode the categorical slots: int32[lines, rows], the intercept last, and the line of each slot by name; the lines of
    crosses are still to be written."""
    scalar = np.empty((len(columns.scalar) + columns.intercept, rows), np.int32)
    lines = {slot.name: line for line, (slot, _) in zip(scalar, columns.of(ScalarKind), strict=False)}
    for slot, scalars in columns.of(ScalarKind):
        if repeats.has(slot):
            codes = np.empty(len(repeats.lengths), np.int32)
            scalars.encode(repeats.values.column(slot.column), slot, encoding, codes)
            lines[slot.name][:] = np.repeat(codes, repeats.lengths)
        elif not slot.members:
            scalars.encode(table.column(slot.column), slot, encoding, lines[slot.name])
    if columns.intercept:
        scalar[-1] = encoding.vocabulary.add(np.array([slot_seed(INTERCEPT)], np.uint64), INTERCEPT_NUMBER)
    return scalar, lines


def bags_of(
    table: pa.Table, repeats: Repeats, columns: Columns, encoding: Encoding, lines: Mapping[str, Codes], expand: bool
) -> tuple[Bag, ...]:
    """Encode the multi-valued and weighted slots, and all crosses.

    Args:
        lines: the codes of categorical slots by name; the codes of crosses are written.
        expand: bags have an entry for each row, not for each run.

    Raises:
        DataError: a cross has too many values.
    """
    bags: dict[str, Bag] = {}
    for slot, kind in columns.of(BagKind):
        if repeats.has(slot):
            bag = kind.encode(repeats.values.column(slot.column), slot, encoding)
            bags[slot.name] = bag.take(repeats.owners) if expand else bag
        elif not slot.members:
            bags[slot.name] = kind.encode(table.column(slot.column), slot, encoding)
    if columns.crosses:
        crossing = Crossing(table, columns, encoding, lines, bags)
        for slot in columns.crosses:
            crossing.encode(slot)
    return tuple(bags[slot.name] for slot in columns.bags)


def in_chunk(
    table: pa.Table,
    repeats: Repeats,
    block: SlotBlock[Any, InChunk, Any],
    record: Record,
    encoding: Encoding,
    where: Callable[[int], str],
    expand: bool,
) -> InChunk:
    """Encode the slots of a record of a block.

    Args:
        expand: see bags_of.

    Raises:
        DataError: see SlotBlock.encoded.
    """
    slots = [slot for slot, _ in record]
    if not repeats.has(slots[0]):
        return block.encoded(slots, [kind.encode(table.column(slot.column), slot, encoding) for slot, kind in record], where)
    once = [kind.encode(repeats.values.column(slot.column), slot, encoding) for slot, kind in record]
    found = block.encoded(slots, once, lambda run: where(int(repeats.starts[run])))
    return found.take(repeats.owners) if expand else found


def encode_dense(table: pa.Table, repeats: Repeats, columns: Columns, encoding: Encoding) -> tuple[NDArray[np.float32], Codes]:
    """Encode slots of numbers: standardised ones first, then the others, a line per element."""
    lines: list[NDArray[np.float32]] = []
    codes: list[int] = []
    for slot, kind in sorted(columns.of(DenseKind), key=lambda pair: pair[1].raw):
        if repeats.has(slot):
            values, first = kind.encode(repeats.values.column(slot.column), slot, encoding)
            values = [np.repeat(line, repeats.lengths) for line in values]
        else:
            values, first = kind.encode(table.column(slot.column), slot, encoding)
        lines.extend(values)
        codes.extend(range(first, first + len(values)))
    dense = np.stack(lines) if lines else np.zeros((0, table.num_rows), np.float32)
    return dense, np.array(codes, np.int32)


def labels_of(table: pa.Table, columns: Columns) -> NDArray[np.float32]:
    """Return the labels, float32[num_labels, rows], NaN where NULL or no known class; of a model without labels zeros."""
    if not columns.labels:
        return np.zeros((1, table.num_rows), np.float32)
    if columns.classes is not None:
        return class_numbers(table.column(columns.labels[0]), columns.classes)[None]
    return np.stack([floats(table.column(name)) for name in columns.labels])


def weights_of(table: pa.Table, columns: Columns) -> NDArray[np.float32]:
    """Return the weights of examples, float32[rows], NaN where NULL; 1 without WEIGHT."""
    return floats(table.column(columns.weight)) if columns.weight else np.ones(table.num_rows, np.float32)


def class_numbers(column: pa.ChunkedArray, classes: Classes) -> NDArray[np.float32]:
    """Return the number of each value's class, float32[rows], NaN where it is not a known class."""
    import pyarrow.compute as pc  # takes 40 ms

    values, array = column.combine_chunks(), classes.array
    values = values.chunk(0) if isinstance(values, pa.ChunkedArray) else values
    if pa.types.is_dictionary(values.type):
        places = pc.index_in(values.dictionary.cast(array.type), value_set=array).take(values.indices)
    else:
        places = pc.index_in(values.cast(array.type, safe=False), value_set=array)
    return np.asarray(places.cast(pa.float32()).to_numpy(zero_copy_only=False), np.float32)


def require_known(column: pa.ChunkedArray, numbers: NDArray[np.float32], columns: Columns, where: Callable[[int], str]) -> None:
    """Refuse labels that are not known classes.

    Args:
        numbers: of `class_numbers`.
        where: names a row of the column.

    Raises:
        DataError: names the label, the first such row and its value, and the classes.
    """
    assert columns.classes is not None
    if len(missing := np.flatnonzero(np.isnan(numbers))):
        row = int(missing[0])
        value = column[row].as_py()
        came, (label,) = "NULL" if value is None else repr(value), columns.labels
        remedy = "" if value is None else ", or TRAIN a model on rows of all classes"
        raise DataError(
            f"LABEL {label} must be one of the model's classes, {columns.classes.text}; {where(row)} has {came}. "
            f"Filter such rows out in the query{remedy}."
        )


def facets_of(table: pa.Table, columns: Columns) -> Facets:
    """Return what an evaluation knows of examples; NULL is a group and a segment."""
    groups, segments = np.empty(0, np.uint64), np.empty(0, np.object_)
    if columns.grouped and columns.group:
        groups = groups_of(table.column(columns.group), columns.group)
    if columns.by:
        words = words_of(table.column(columns.by))
        segments = words.dictionary.to_numpy(zero_copy_only=False)[words.indices.to_numpy()]
    return Facets(groups, segments)


def groups_of(column: pa.ChunkedArray, name: str) -> NDArray[np.uint64]:
    """Return the hashes of a GROUP column's values, uint64[rows]; NULL is a group."""
    words = words_of(column)
    keys: NDArray[np.uint64] = feature_keys(name, words.dictionary)[words.indices.to_numpy()]
    return keys


def words_of(column: pa.ChunkedArray) -> pa.DictionaryArray:
    """Return the values of a column as text, NULL as `NULL`, and texts that would look like it in quotes."""
    import pyarrow.compute as pc  # takes 40 ms, and few statements name groups or segments

    array = column.combine_chunks()
    plain = array.dictionary_decode() if pa.types.is_dictionary(array.type) else array
    words = plain.cast(pa.string()).dictionary_encode(null_encoding="encode")
    texts = pc.replace_substring_regex(words.dictionary, "^('*NULL'*)$", r"'\1'").fill_null("NULL")
    return pa.DictionaryArray.from_arrays(words.indices, texts)
