"""JSON files as Spark reads them: an object a line, columns in the order of their names, texts that look like dates texts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from sqlglot import exp

from ....errors import StatementError
from ....spark_types import quoted
from ....udf.json_values import has_doubts
from ..translation import json_fields, json_shape, make_macros
from .csv import truth
from .csv_syntax import whole_lines
from .paths import FAILURES, Listing, literal, opener

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from duckdb.sqltypes import DuckDBPyType

JSON_OPTIONS = {"path": None, "multiline": "false"}
WIDER = dict.fromkeys(("TINYINT", "SMALLINT"), "INTEGER")
WHOLE = ("bigint", "integer", "smallint", "tinyint")
PLAIN = {"double": "DOUBLE", "boolean": "BOOLEAN", **dict.fromkeys(("ubigint", "hugeint"), "DECIMAL(20,0)")}


def json_sql(
    connection: DuckDBPyConnection, found: Listing, options: Mapping[str, str], columns: Mapping[str, str] | None
) -> str:
    """Return DuckDB's query of JSON files."""
    by_line = not truth(options, "multiline") and not is_array(found.files[0])
    arguments = f"{found.array}, format = '{'newline_delimited' if by_line else 'auto'}', {found.arguments}"
    if columns is None:
        whole = "sample_size = -1, map_inference_threshold = -1, maximum_depth = -1"
        columns = inferred(connection, f"read_json({arguments}, {whole})")
    columns = {name: kind for name, kind in columns.items() if name not in found.partitions}
    rows = plain_rows if by_line and not doubtful(found.files, columns) else settled_rows
    sql = f"SELECT {', '.join([*map(quoted, columns), *found.added])} FROM {rows(arguments, columns, [*found.partitions])}"
    make_macros(sql, connection)
    return sql


def plain_rows(arguments: str, columns: Mapping[str, str], others: Sequence[str]) -> str:
    """Return DuckDB's reader, for values that it reads as Spark does; it refuses integers that are too large."""
    named = ", ".join(f"{literal(name)}: {literal(WIDER.get(kind, kind))}" for name, kind in columns.items())
    rows = f"read_json({arguments}, records = true, columns = {{{named}}})"
    if not any(kind in WIDER for kind in columns.values()):
        return rows
    items = [
        f"TRY_CAST({quoted(name)} AS {kind}) AS {quoted(name)}" if kind in WIDER else quoted(name)
        for name, kind in columns.items()
    ]
    return f"(SELECT {', '.join([*items, *map(quoted, others)])} FROM {rows})"


def settled_rows(arguments: str, columns: Mapping[str, str], others: Sequence[str]) -> str:
    """Return a query of rows whose objects are settled before their fields are read; see `json_values`."""
    struct = struct_of(columns)
    text = f"xpsql_json_settled(CAST(json AS VARCHAR), {literal(json.dumps(json_fields(struct)))})"
    made = f"from_json(CAST({text} AS JSON), {literal(json_shape(struct))})"
    items = [f"made.{quoted(name)} AS {quoted(name)}" for name in columns]
    inner = ", ".join([f"{made} AS made", *map(quoted, others)])
    return f"(SELECT {', '.join([*items, *map(quoted, others)])} FROM (SELECT {inner} FROM read_json_objects({arguments})))"


def struct_of(columns: Mapping[str, str]) -> exp.DataType:
    """Return columns as the struct of a row."""
    fields = [
        exp.ColumnDef(this=exp.to_identifier(name, quoted=True), kind=exp.DataType.build(kind, dialect="duckdb"))
        for name, kind in columns.items()
    ]
    return exp.DataType(this=exp.DataType.Type.STRUCT, expressions=fields, nested=True)


def doubtful(files: Sequence[str], columns: Mapping[str, str]) -> bool:
    """Return whether files of lines have objects of which DuckDB would make other values than Spark."""
    fields = json_fields(struct_of(columns))
    return any(has_doubts(text, fields) for file in files for text in whole_lines(file, "JSON"))


def is_array(file: str) -> bool:
    """Return whether a file is an array of rows.

    Raises:
        StatementError: the file cannot be read.
    """
    try:
        with opener(file)(file, "rb") as content:
            return bool(content.read(4096).lstrip().startswith(b"["))
    except FAILURES as error:
        raise StatementError(f"{file} cannot be read as JSON: {error}.") from error


def inferred(connection: DuckDBPyConnection, rows: str) -> dict[str, str]:
    """Return the type of each column, in the order of names."""
    relation = connection.sql(f"SELECT * FROM {rows}")
    found = dict(zip(relation.columns, relation.types, strict=True))
    return {name: spark_json(found[name]) for name in sorted(found)}


def spark_json(kind: DuckDBPyType) -> str:
    """Return the DuckDB type of what Spark finds in JSON: bigint, decimal, double, boolean, string, arrays and structs."""
    if kind.id == "list":
        return f"{spark_json(*children(kind).values())}[]"
    if kind.id == "struct":
        fields = sorted(children(kind).items())
        return "STRUCT(" + ", ".join(f"{quoted(name)} {spark_json(child)}" for name, child in fields) + ")"
    return "BIGINT" if kind.id in WHOLE else PLAIN.get(kind.id, "VARCHAR")


def children(kind: DuckDBPyType) -> dict[str, DuckDBPyType]:
    """Return the types inside of a list or struct, by name."""
    return {name: child for name, child in kind.children if not isinstance(child, int | list)}
