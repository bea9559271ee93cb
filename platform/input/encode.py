"""Encoding: Arrow columns to keys.

A chunk's distinct features are hashed once; its examples refer to them by small codes, so that finding a batch's unique keys
is an array look-up. Equal keys of two slots (WITH share) have one code.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...algorithms.chunk import Bag, Chunk, Facets, Histories
from ..errors import DataError
from ..operators.base import INTERCEPT_NUMBER
from ..ps.keys import feature_keys, slot_seed
from .columns import INTERCEPT, Classes, Columns
from .crossing import Crossing
from .kinds.base import BagKind, DenseKind, Encoding, ScalarKind, SequenceKind, VectorArrayKind
from .numbers import floats, seconds
from .slot import Slot
from .vocabulary import Codes, Vocabulary


def row_in_table(row: int) -> str:
    """Return a row of a table that stands alone, in words."""
    return f"row {row}"


def encode(table: pa.Table, columns: Columns, with_labels: bool, where: Callable[[int], str] = row_in_table) -> Chunk:
    """Encode a chunk of rows.

    Args:
        table: columns.learned, or columns.inputs when scoring.
        columns: slots and roles.
        with_labels: read label, weight and time too.
        where: names a row of the table, for messages.

    Raises:
        DataError: a vector whose length differs from the others', fields of a history of different lengths in a row, or a cross
            of too many values.
    """
    rows = table.num_rows
    vocabulary = Vocabulary()
    numbers = {slot.name: slot.number for slot in columns.slots}
    encoding = Encoding(vocabulary, numbers, columns.null_features, columns.logarithmic)
    scalar = np.empty((len(columns.scalar) + columns.intercept, rows), np.int32)
    lines = {slot.name: line for line, (slot, _) in zip(scalar, columns.of(ScalarKind), strict=False)}
    for slot, scalars in columns.of(ScalarKind):
        if not slot.members:
            scalars.encode(table.column(slot.column), slot, encoding, lines[slot.name])
    if columns.intercept:
        scalar[-1] = vocabulary.add(np.array([slot_seed(INTERCEPT)], np.uint64), INTERCEPT_NUMBER)
    bags = bags_of(table, columns, encoding, lines)
    histories = tuple(aligned(table, group, encoding, where) for group in columns.groups)
    dense, dense_codes = encode_dense(table, columns, encoding)
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
        histories if final is None else tuple(one._replace(codes=final.take(one.codes, mode="wrap")) for one in histories),
        tuple(kind.encode(table.column(slot.column), slot) for slot, kind in columns.of(VectorArrayKind)),
    )


def bags_of(table: pa.Table, columns: Columns, encoding: Encoding, lines: Mapping[str, Codes]) -> tuple[Bag, ...]:
    """Encode the multi-valued and weighted slots, and all crosses.

    Args:
        lines: the codes of categorical slots by name; those of crosses are written.

    Raises:
        DataError: a cross has too many values.
    """
    bags = {
        slot.name: kind.encode(table.column(slot.column), slot, encoding)
        for slot, kind in columns.of(BagKind)
        if not slot.members
    }
    if columns.crosses:
        crossing = Crossing(table, columns, encoding, lines, bags)
        for slot in columns.crosses:
            crossing.encode(slot)
    return tuple(bags[slot.name] for slot in columns.bags)


def aligned(
    table: pa.Table, group: Sequence[tuple[Slot, SequenceKind]], encoding: Encoding, where: Callable[[int], str]
) -> Histories:
    """Encode the slots of a group, whose elements belong together.

    Raises:
        DataError: fields have different lengths in a row; names the row, and what it has.
    """
    fields = [kind.encode(table.column(slot.column), slot, encoding) for slot, kind in group]
    (first, _), lengths = group[0], fields[0].lengths
    for (slot, _), own in zip(group[1:], fields[1:], strict=True):
        if len(uneven := np.flatnonzero(own.lengths != lengths)):
            row = int(uneven[0])
            raise DataError(
                f"{first.name} and {slot.name} are fields of one history, so each row must have as many elements in one as in "
                f"the other; {where(row)} has {lengths[row]} and {own.lengths[row]}. Repair or filter it in the query."
            )
    offsets = np.concatenate([[0], np.cumsum(fields[0].kept)]).astype(np.int64)
    return Histories(np.stack([own.codes for own in fields]), offsets, max(slot.length for slot, _ in group))


def encode_dense(table: pa.Table, columns: Columns, encoding: Encoding) -> tuple[NDArray[np.float32], Codes]:
    """Encode slots of numbers: those that are standardised, then the others, a line per element."""
    lines: list[NDArray[np.float32]] = []
    codes: list[int] = []
    for slot, kind in sorted(columns.of(DenseKind), key=lambda pair: pair[1].raw):
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
    """Return the place of each value among classes, float32[rows], NaN where it is none of them."""
    import pyarrow.compute as pc  # takes 40 ms

    values, array = column.combine_chunks(), classes.array
    values = values.chunk(0) if isinstance(values, pa.ChunkedArray) else values
    if pa.types.is_dictionary(values.type):
        places = pc.index_in(values.dictionary.cast(array.type), value_set=array).take(values.indices)
    else:
        places = pc.index_in(values.cast(array.type, safe=False), value_set=array)
    return np.asarray(places.cast(pa.float32()).to_numpy(zero_copy_only=False), np.float32)


def require_known(column: pa.ChunkedArray, numbers: NDArray[np.float32], columns: Columns, where: Callable[[int], str]) -> None:
    """Refuse labels that are none of the classes.

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
        told, (label,) = "NULL" if value is None else repr(value), columns.labels
        remedy = "" if value is None else ", or TRAIN a model on rows of all classes"
        raise DataError(
            f"LABEL {label} must be one of the classes that the model knows, {columns.classes.text}; {where(row)} has {told}. "
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
    told = pc.replace_substring_regex(words.dictionary, "^('*NULL'*)$", r"'\1'").fill_null("NULL")
    return pa.DictionaryArray.from_arrays(words.indices, told)
