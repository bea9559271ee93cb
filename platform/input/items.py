"""Items of a training, each with its features once, in a file that every process of it reads."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...warehouse.durable import creating
from ...warehouse.mapped import Bytes, Identity, content_of, cut_off
from ..errors import DataError, StatementError, Subject, suggestion
from ..ps.keys import feature_keys
from ..spark_types import is_category, spark_type

ITEMS = Subject("ITEMS")
NAME = "items.arrow"
DISTINCT = 4
"""A column of texts is kept as a dictionary where so many items have one on average."""

Places = NDArray[np.int64]
T = TypeVar("T")


class ItemRows:
    """Items, one a row, whose first column tells them apart.

    Args:
        content: the file that `write_items` writes.

    Raises:
        ArrowException: it is damaged.
    """

    def __init__(self, content: Bytes) -> None:
        self.content = content
        table = pa.ipc.open_file(pa.py_buffer(content)).read_all()
        table.validate(full=True)
        self.table: pa.Table = pa.table(list(map(with_own_texts, table.columns)), names=table.column_names)
        keys = feature_keys("", self.table.column(0).combine_chunks())
        self._order = np.argsort(keys)
        self._keys = keys[self._order]

    def places(self, values: pa.ChunkedArray) -> Places:
        """Return the row of each item, -1 where there is none."""
        if not len(values):
            return np.empty(0, np.int64)
        wanted = np.concatenate([feature_keys("", chunk) for chunk in values.chunks])
        at = np.minimum(np.searchsorted(self._keys, wanted), len(self._keys) - 1)
        found: Places = np.where(self._keys[at] == wanted, self._order[at], -1)
        return found

    def taken(self, names: Sequence[str], places: Places) -> dict[str, pa.ChunkedArray]:
        """Return columns of some items, by name in lower case."""
        return {name.lower(): self.table.column(name).take(pa.array(places)) for name in names}

    def rows(self, wanted: Sequence[str]) -> pa.Table:
        """Return columns of all items, under the names that a model gives them."""
        own = {name.lower(): name for name in self.table.column_names}
        return self.table.select([own[name.lower()] for name in wanted]).rename_columns(list(wanted))


@dataclass(frozen=True)
class ItemFile:
    """Where the items of a training are.

    Attributes:
        schema: their columns, in Spark's types; the first one tells items apart.
        path: of the file; "" until it is written.
    """

    schema: pa.Schema
    path: str = ""

    @property
    def item(self) -> str:
        """The column that tells items apart."""
        name: str = self.schema.names[0]
        return name

    def using(self, use: Callable[[ItemRows], T]) -> T:
        """Return what is made of the items, which stay in memory, mapped where they are large.

        Raises:
            DataError: the file is gone, damaged, or cut off meanwhile.
        """
        try:
            items = items_in(self.path, Identity.of(Path(self.path).stat()))
            made = use(items)
            if cut_off(items.content):
                raise OSError("it was cut off while it was read")
            return made
        except (OSError, pa.ArrowException) as error:
            raise DataError(f"The items in {self.path} cannot be read: {error}. Train again.") from error


@functools.lru_cache(maxsize=2)
def items_in(path: str, written: Identity) -> ItemRows:
    """Return the items of a file, which stay in memory.

    Args:
        written: which file it was, and of when.
    """
    with Path(path).open("rb", buffering=0) as file:
        return ItemRows(content_of(file, written.size))


def check_schema(log: pa.Schema, items: pa.Schema) -> None:
    """Refuse items whose features cannot be added to the rows of a log.

    Raises:
        StatementError: the log does not name items as ITEMS does, or both have another column.
    """
    first, own = items.field(0), {field.name.lower(): field for field in log}
    taken = own.get(first.name.lower())
    if taken is None:
        raise StatementError(
            f"The query does not say which item a row is about: it needs the column {first.name}, as the first of ITEMS is "
            f"named.{suggestion(first.name, log.names)}",
            subject=ITEMS,
        )
    check_identifies(first, "ITEMS")
    check_identifies(taken, "the query")
    both = [name for name in items.names[1:] if name.lower() in own]
    if both:
        raise StatementError(
            f"Both the query and ITEMS return {both[0]}; leave it out of the one that it does not describe.", subject=ITEMS
        )


def check_identifies(field: pa.Field, where: str) -> None:
    """Refuse a column that is to identify items, and whose type does not.

    Args:
        where: who returns it.
    """
    if not is_category(field.type):
        raise StatementError(
            f"{field.name} identifies items, and is {spark_type(field.type)} in {where}; it must be a text, a whole "
            "number, a date or a boolean. Use CAST.",
            subject=ITEMS,
        )


def check_items(items: pa.Table) -> None:
    """Refuse items of which one is NULL or there twice, or whose first column does not identify them.

    Raises:
        StatementError: names the item.
    """
    check_identifies(items.schema.field(0), "ITEMS")
    first, column = items.column_names[0], items.column(0)
    if column.null_count:
        raise StatementError(
            f"ITEMS has an item whose {first} is NULL; leave it out: WHERE {first} IS NOT NULL.", subject=ITEMS
        )
    import pyarrow.compute as pc  # takes 40 ms, and few statements have ITEMS

    counts = column.value_counts()
    twice = counts.filter(pc.greater(counts.field(1), 1))
    if len(twice):
        raise StatementError(
            f"ITEMS has the item {twice[0]['values'].as_py()!r} {twice[0]['counts']} times. Its first column, "
            f"{first}, identifies items: SELECT DISTINCT, or one row of each.",
            subject=ITEMS,
        )


def write_items(items: pa.Table, folder: Path) -> ItemFile:
    """Write items, and return where they are.

    Raises:
        StatementError: there are none, one is NULL or there twice.
    """
    if not items.num_rows:
        raise StatementError("ITEMS returns no rows; there is no item to learn.", subject=ITEMS)
    check_items(items)
    path = folder / NAME
    with creating(path), pa.OSFile(str(path), "wb") as sink:
        table = pa.table([coded(column) for column in items.columns], names=items.column_names)
        with pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
    return ItemFile(items.schema, str(path.absolute()))


def with_own_texts(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column whose dictionaries are in memory of their own, as what is taken of it goes on to refer to them."""
    if not pa.types.is_dictionary(column.type):
        return column
    made = [
        pa.DictionaryArray.from_arrays(chunk.indices, chunk.dictionary.take(pa.array(np.arange(len(chunk.dictionary)))))
        for chunk in column.chunks
    ]
    return pa.chunked_array(made, column.type)


def coded(column: pa.ChunkedArray) -> pa.Array:
    """Return a column in one piece; texts that many items have as a dictionary."""
    whole = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    if not pa.types.is_string(whole.type):
        return whole
    made = whole.dictionary_encode()
    return made if len(made.dictionary) * DISTINCT <= len(made) else whole
