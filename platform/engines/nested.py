"""Nested rows, read as they are stored: a query whose one step that is not row-wise makes rows of the elements of an array.

Of `SELECT user, age, inline(impressions) AS (item, click) FROM requests` each stored row is read once. What the rows of its
elements have in common (user, age) comes as run-end encoded columns, beside the columns of the elements.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from sqlglot import exp

from ...warehouse.entries import Split
from ..errors import StatementError
from .base import Bounds, Scan, Staged
from .in_place import CLAUSES, bare
from .parquet_files import metadata_of
from .parquet_scan import ParquetScan, as_row_group
from .repeats import repeated
from .spark_sql.dialect import SparkSQL
from .spark_sql.parsing import parse_query

ELEMENTS = "xpsql_elements"
GENERATORS = ("inline", "explode", "posexplode")
POSITION, WHOLE = -2, -1
MOST_COUNTED = 1 << 22


class Unnesting(NamedTuple):
    """A query of the elements of an array, taken apart.

    Attributes:
        outer: the query of the rows that have the arrays, the arrays in the column ELEMENTS.
        generator: inline, explode or posexplode.
        chosen: result column -> the generator's column and "", or a field of it; None where the result's columns that are not
            from `outer` are the generator's, in order.
    """

    outer: str
    generator: str
    chosen: dict[str, tuple[int, str]] | None


@dataclass(frozen=True)
class NestedScan:
    """Rows of the elements of arrays in Parquet files; see Scan.

    Attributes:
        outer: reads the rows that have the arrays.
        parts: result column -> the field of an element that it is, or POSITION, or WHOLE.
    """

    outer: ParquetScan
    parts: dict[str, int]
    schema: pa.Schema
    staged: bool = False
    bounded: bool = True
    exact: bool = False

    @property
    def most_counted(self) -> int:
        """Fewer: arrays are read as wholes."""
        return MOST_COUNTED

    def splits(self) -> list[Split]:
        """List the row groups, each with as many rows as its longest array column has elements."""
        return [replace(as_row_group(split), rows=self._shape(split)[1]) for split in self.outer.splits()]

    def read(self, split: Split, wanted: Sequence[str], rows: int) -> Generator[pa.Table, None, None]:
        """Read a row group in tables of `rows` rows."""
        names = self._own(wanted)
        outer = [name for name in names if name not in self.parts]
        stored, most = self._shape(split)
        pending = PendingElements(outer)
        for table in self.outer.read(split, [*outer, ELEMENTS], max(1, rows * stored // max(most, 1))):
            pending.add(table)
            while pending.rows >= rows:
                yield self._made(pending.taken(rows), names, wanted)
        if pending.rows:
            yield self._made(pending.taken(pending.rows), names, wanted)

    def bounds(self, splits: Sequence[Split], column: str) -> Iterator[Bounds]:
        """Yield nothing: rows without elements give no rows."""
        return iter(())

    def check(self, split: Split) -> None:
        """Refuse a file that has changed."""
        self.outer.check(split)

    def describe(self) -> str:
        """Return how the files are read."""
        return f"nested rows, {self.outer.describe()}"

    def entry(self) -> dict[str, Any]:
        """Return the schema; the rest is made again from the query."""
        return {"schema": base64.b64encode(self.schema.serialize()).decode(), "projected": True}

    def over(self, splits: Sequence[Split]) -> NestedScan:
        """Return the scan of the files of some splits."""
        return replace(self, outer=self.outer.over(splits))

    def _own(self, wanted: Sequence[str]) -> list[str]:
        own = {name.lower(): name for name in self.schema.names} | {name: name for name in self.schema.names}
        return [own[name if name in own else name.lower()] for name in wanted]

    def _shape(self, split: Split) -> tuple[int, int]:
        """Return how many rows a row group has, and elements at most."""
        group = metadata_of(as_row_group(split).path).row_group(as_row_group(split).row_group)
        of_arrays = dict.fromkeys(self.outer.needed, 0)
        for column in map(group.column, range(group.num_columns)):
            name, dot, _ = column.path_in_schema.partition(".")
            if dot and name in of_arrays:
                of_arrays[name] = max(of_arrays[name], column.num_values)
        own = self.outer.columns.get(ELEMENTS) if self.outer.project is None else None
        return group.num_rows, of_arrays[own] if own else max(of_arrays.values(), default=0)

    def _made(self, taken: TakenElements, names: Sequence[str], wanted: Sequence[str]) -> pa.Table:
        """Return the result's rows of some elements."""
        columns: list[pa.Array] = []
        for name in names:
            if name not in self.parts:
                columns.append(repeated(taken.outer.column(name), taken.ends))
                continue
            part, kind = self.parts[name], self.schema.field(name).type
            if part == POSITION:
                columns.append(pa.array(taken.positions, kind))
            else:
                values = taken.elements if part == WHOLE else field_of(taken.elements, part)
                columns.append(values if values.type == kind or pa.types.is_dictionary(values.type) else values.cast(kind))
        return pa.Table.from_arrays(columns, list(wanted))


class TakenElements(NamedTuple):
    """Some elements, and the rows that have them.

    Attributes:
        outer: the rows.
        ends: int32[rows], where the elements of each end.
        elements: of all of them.
        positions: int32[elements], the place of each in its array, from 0 on.
    """

    outer: pa.Table
    ends: NDArray[np.int32]
    elements: pa.Array
    positions: NDArray[np.int32]


class PendingElements:
    """Elements that were read and not yet taken.

    Args:
        outer: the columns of rows that are kept.

    Attributes:
        rows: how many elements there are.
    """

    def __init__(self, outer: Sequence[str]) -> None:
        self.rows = 0
        self._names = list(outer)
        self._tables: list[pa.Table] = []
        self._elements: list[pa.Array] = []
        self._lengths = np.empty(0, np.int64)
        self._used = 0  # of the first row, elements that were taken

    def add(self, table: pa.Table) -> None:
        """Add rows that were read; rows without elements give none."""
        import pyarrow.compute as pc

        arrays = table.column(ELEMENTS).combine_chunks()
        lengths = pc.list_value_length(arrays).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
        self._elements.append(arrays.flatten())
        self._tables.append(table.select(self._names) if lengths.all() else table.select(self._names).filter(lengths > 0))
        self._lengths = np.append(self._lengths, lengths[lengths > 0])
        self.rows += int(lengths.sum())

    def taken(self, count: int) -> TakenElements:
        """Take elements, in order; a row that has more of them stays."""
        ends = np.cumsum(self._lengths)
        ends[:] -= self._used
        rows = int(np.searchsorted(ends, count)) + 1
        elements, outer = pa.concat_arrays(self._elements), pa.concat_tables(self._tables)
        lengths, first = self._lengths[:rows], self._used
        stops = np.minimum(ends[:rows], count)
        starts = np.concatenate([[0], stops[:-1]])
        places = np.arange(count) - np.repeat(starts, stops - starts)
        places[: stops[0]] += first
        whole = ends[rows - 1] == count
        left = rows if whole else rows - 1
        self._used = 0 if whole else int(count - (ends[rows - 2] if rows > 1 else -first))
        self._tables, self._elements = [outer.slice(left)], [elements.slice(count)]
        self._lengths, self.rows = self._lengths[left:], self.rows - count
        assert len(lengths) == rows
        return TakenElements(outer.slice(0, rows), stops.astype(np.int32), elements.slice(0, count), places.astype(np.int32))


def field_of(elements: pa.Array, number: int) -> pa.Array:
    """Return a field of structs, NULL where the struct is."""
    import pyarrow.compute as pc

    return pc.struct_field(elements, [number])


def nested_scan(query: str, schema: pa.Schema, scan: Callable[[str], Scan | Staged]) -> NestedScan | None:
    """Return how to read the elements of arrays in place; None for other queries.

    Args:
        query: in Spark SQL.
        schema: the result's columns.
        scan: returns how to read another query.
    """
    if not any(name in query.lower() for name in GENERATORS):
        return None
    try:
        taken_apart = unnesting(parse_query(query), schema)
        outer = None if taken_apart is None else scan(taken_apart.outer)
    except StatementError:
        return None
    if taken_apart is None or not isinstance(outer, ParquetScan):
        return None
    arrays = outer.schema.field(ELEMENTS).type
    if not (pa.types.is_list(arrays) or pa.types.is_large_list(arrays)):
        return None
    parts = parts_of(taken_apart, arrays.value_type, [n for n in schema.names if n not in outer.schema.names])
    if parts is None or any(n not in parts and outer.schema.field(n).type != schema.field(n).type for n in schema.names):
        return None
    return NestedScan(replace(outer, coded_fields=ELEMENTS), parts, schema)


def parts_of(query: Unnesting, element: pa.DataType, names: Sequence[str]) -> dict[str, int] | None:
    """Return result column -> part of an element; None where there is none.

    Args:
        element: the type of elements.
        names: of the result's columns that do not come from `outer`.
    """
    if query.generator == "inline":
        made = list(range(element.num_fields)) if pa.types.is_struct(element) else []
    else:
        made = [POSITION, WHOLE] if query.generator == "posexplode" else [WHOLE]
    chosen = {name: (number, "") for number, name in enumerate(names)} if query.chosen is None else query.chosen
    if (query.chosen is None and len(names) != len(made)) or set(names) != set(chosen):
        return None
    parts: dict[str, int] = {}
    for name, (number, field) in chosen.items():
        if number >= len(made) or (field and (made[number] != WHOLE or not pa.types.is_struct(element))):
            return None
        fields = [i for i in range(element.num_fields) if element.field(i).name.lower() == field.lower()] if field else []
        if field and len(fields) != 1:
            return None
        parts[name] = fields[0] if field else made[number]
    return parts


def unnesting(tree: exp.Query, schema: pa.Schema) -> Unnesting | None:
    """Take a query apart whose one step that is not row-wise makes rows of the elements of an array; None for others."""
    if not isinstance(tree, exp.Select) or not tree.args.get("from_") or not bare(tree, (*CLAUSES, "laterals")):
        return None
    laterals = tree.args.get("laterals") or []
    generators = [node for node in tree.find_all(exp.Anonymous) if node.name.lower() in GENERATORS]
    if len(generators) != 1 or len(laterals) > 1 or len(generators[0].expressions) != 1:
        return None
    return of_lateral(tree, laterals[0], generators[0], schema) if laterals else of_item(tree, generators[0])


def of_item(tree: exp.Select, generator: exp.Anonymous) -> Unnesting | None:
    """Take apart `SELECT ..., inline(array) AS (...) FROM ...`."""
    items = [item for item in tree.expressions if item.unalias() is not generator and item.this is not generator]
    if len(items) != len(tree.expressions) - 1:
        return None
    return Unnesting(with_arrays(tree, items, generator), generator.name.lower(), None)


def of_lateral(tree: exp.Select, lateral: exp.Lateral, generator: exp.Anonymous, schema: pa.Schema) -> Unnesting | None:
    """Take apart `SELECT ... FROM ... LATERAL VIEW explode(array) t AS ...`."""
    alias = lateral.args.get("alias")
    if lateral.this is not generator or lateral.args.get("outer") or alias is None or not alias.columns:
        return None
    if len(tree.expressions) != len(schema) or any(item.is_star for item in tree.expressions):
        return None
    table, made = alias.name.lower(), [column.name.lower() for column in alias.columns]
    where = tree.args.get("where")
    if where is not None and any(place_in(column, table, made) for column in where.find_all(exp.Column)):
        return None
    items: list[exp.Expr] = []
    chosen: dict[str, tuple[int, str]] = {}
    for name, item in zip(schema.names, tree.expressions, strict=True):
        value = item.unalias()
        if isinstance(value, exp.Column) and (place := place_in(value, table, made)):
            chosen[name] = place
        elif any(place_in(column, table, made) for column in value.find_all(exp.Column)):
            return None
        else:
            items.append(exp.alias_(value.copy(), name, quoted=True))
    return Unnesting(with_arrays(tree, items, generator), generator.name.lower(), chosen)


def place_in(column: exp.Column, table: str, made: Sequence[str]) -> tuple[int, str] | None:
    """Return which of a lateral view's columns a reference is, and of a field its name; None of other columns."""
    name, of, db = column.name.lower(), column.table.lower(), column.text("db").lower()
    if not db and of in ("", table) and name in made:
        return made.index(name), ""
    if of in made and db in ("", table):
        return made.index(of), column.name
    return None


def with_arrays(tree: exp.Select, items: Sequence[exp.Expr], generator: exp.Anonymous) -> str:
    """Return the query of the rows that have the arrays."""
    outer = tree.copy()
    outer.set("laterals", None)
    arrays = exp.alias_(generator.expressions[0].copy(), ELEMENTS)
    outer.set("expressions", [*(item.copy() for item in items), arrays])
    return outer.sql(dialect=SparkSQL, normalize_functions=False)
