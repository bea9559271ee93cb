"""The items that are ranked: one a row, what a model reads of them, and which of them a row of a query has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ...algorithms.augments.pairs import pairs_of
from ...algorithms.base import Algorithm
from ..errors import StatementError, suggestion
from ..input.columns import Columns
from ..input.items import check_items
from ..input.slots import matched
from ..spark_types import type_words

if TYPE_CHECKING:
    from ...warehouse.version import Version

Places = NDArray[np.int64]


def catalogue_of(version: Version, items: pa.Table, k: int) -> pa.Table:
    """Return items, one a row, whose first column tells them apart.

    Raises:
        StatementError: an item is NULL or occurs twice, or there are fewer than k.
    """
    check_items(items)
    if not len(items):
        raise StatementError("The query of ITEMS returns no rows; there is no item to choose. Look at its tables.")
    if len(items) < k:
        model = f"{version.manifest.model} v{version.number}"
        raise StatementError(f"{model} is asked for {k} items, and ITEMS has {len(items)}. Ask for no more.")
    return items


def divided(columns: Columns, rows: pa.Schema, items: pa.Schema) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """Return which columns of the query, and which of ITEMS, a model reads: its name -> theirs."""
    own, theirs = ({name.lower() for name in schema.names} for schema in (rows, items))
    for name in columns.inputs:
        if name.lower() in own & theirs:
            raise StatementError(f"Both the query and ITEMS return {name}; leave it out of the one that it does not describe.")
        if name.lower() not in own | theirs:
            raise StatementError(
                f"The model needs the column {name}, which neither the query nor ITEMS returns."
                f"{suggestion(name, [*rows.names, *items.names])}"
            )
    of_items = [name for name in columns.inputs if name.lower() in theirs]
    if not of_items:
        raise StatementError(
            f"ITEMS returns no column of the model, so that all score the same.{suggestion(items.names[0], columns.inputs)}"
        )
    of_rows = [name for name in columns.inputs if name.lower() in own]
    return matched(columns, rows, of_rows), matched(columns, items, of_items)


def columns_of_slots(columns: Columns, names: Sequence[str]) -> list[str]:
    """Return the columns of the query that some slots are read from."""
    return list(dict.fromkeys(slot.column for slot in columns.slots if slot.name in names))


def check_sides(
    columns: Columns,
    query_slots: Sequence[str],
    item_slots: Sequence[str],
    own: Mapping[str, str],
    theirs: Mapping[str, str],
) -> None:
    """Refuse a column of one side that the other one returns.

    Args:
        own, theirs: the columns that are read of the query, and of ITEMS.
    """
    for side, slots, there, where, other in (
        ("the query", query_slots, own, "the query", "ITEMS"),
        ("the item", item_slots, theirs, "ITEMS", "the query"),
    ):
        if missing := [name for name in columns_of_slots(columns, slots) if name not in there]:
            raise StatementError(f"The model learned {missing[0]} of {side}; return it by {where}, in place of {other}.")


def had_columns(
    columns: Columns, algorithm: Algorithm, rows: pa.Schema, item: pa.Field, exclude: str | None
) -> tuple[str, ...]:
    """Return the array columns of the query whose items are left out: that of EXCLUDE, else the histories of the model, which
    share the rows of the item or make pairs with it."""
    own = {name.lower(): name for name in rows.names}
    if exclude is not None:
        if exclude.lower() not in own:
            raise StatementError(
                f"EXCLUDE names {exclude!r}, which the query does not return.{suggestion(exclude, rows.names)}"
            )
        column = rows.field(own[exclude.lower()])
        if is_array(column.type) and pa.types.is_null(column.type.value_type):
            return ()  # array(): nothing is left out
        if not (is_array(column.type) and alike(column.type.value_type, item.type)):
            raise StatementError(
                f"EXCLUDE expects an array of items that a row has, of {type_words(item.type)} as {item.name} is in ITEMS; "
                f"{column.name} is {type_words(column.type)}. Use collect_list, array() or CAST."
            )
        return (column.name,)
    slots = [columns.bags[pairs.history] for pairs in pairs_of(algorithm.learns)]
    slots += [slot for slot in columns.slots if slot.name != slot.source and slot.source.lower() == item.name.lower()]
    found = [rows.field(own[slot.column.lower()]) for slot in slots if slot.column.lower() in own]
    known = [field for field in found if is_array(field.type) and alike(field.type.value_type, item.type)]
    return tuple(dict.fromkeys(field.name for field in known))


def is_array(type: pa.DataType) -> bool:
    return bool(pa.types.is_list(type) or pa.types.is_large_list(type))


def alike(one: pa.DataType, other: pa.DataType) -> bool:
    """Return whether values of two types can be the same item."""
    kinds = plain(one), plain(other)
    texts = [pa.types.is_string(kind) or pa.types.is_large_string(kind) for kind in kinds]
    return all(texts) or all(pa.types.is_integer(kind) for kind in kinds) or bool(one == other)


def plain(type: pa.DataType) -> pa.DataType:
    return type.value_type if pa.types.is_dictionary(type) else type


def places_of(values: pa.Array, items: pa.ChunkedArray) -> tuple[Places, Places]:
    """Return the row of each value that is not NULL, and its place among the items, -1 where it is not an item.

    Args:
        values: an item of each row, or an array of items.
    """
    if is_array(values.type):
        values, rows = values.flatten(), values.value_parent_indices().to_numpy(zero_copy_only=False)
    else:
        rows = np.arange(len(values))
    there = values.is_valid().to_numpy(zero_copy_only=False)
    names = items.combine_chunks()
    kind = pa.int64() if pa.types.is_integer(plain(names.type)) else pa.large_string()
    places = pc.index_in(values.cast(kind), value_set=names.cast(kind)).fill_null(-1).to_numpy(zero_copy_only=False)
    return rows[there].astype(np.int64), places[there].astype(np.int64)
