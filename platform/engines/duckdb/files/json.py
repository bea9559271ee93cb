"""JSON files as Spark reads them: an object a line, columns in the order of their names, texts that look like dates texts."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ....errors import StatementError
from ....spark_types import quoted
from .csv import truth
from .paths import Listing, literal, opener

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from duckdb.sqltypes import DuckDBPyType

JSON_OPTIONS = {"path": None, "multiline": "false"}
WHOLE = ("bigint", "integer", "smallint", "tinyint")
PLAIN = {"double": "DOUBLE", "boolean": "BOOLEAN", **dict.fromkeys(("ubigint", "hugeint"), "DECIMAL(20,0)")}


def json_sql(
    connection: DuckDBPyConnection, found: Listing, options: Mapping[str, str], columns: Mapping[str, str] | None
) -> str:
    """Return DuckDB's query of JSON files."""
    shape = "auto" if truth(options, "multiline") or is_array(found.files[0]) else "newline_delimited"
    arguments = f"{found.array}, format = '{shape}', {found.arguments}"
    if columns is None:
        whole = "sample_size = -1, map_inference_threshold = -1, maximum_depth = -1"
        columns = inferred(connection, f"read_json({arguments}, {whole})")
        columns = {name: kind for name, kind in columns.items() if name not in found.partitions}
    named = ", ".join(f"{literal(name)}: {literal(kind)}" for name, kind in columns.items())
    items = ", ".join([*map(quoted, columns), *found.added])
    return f"SELECT {items} FROM read_json({arguments}, records = true, columns = {{{named}}})"


def is_array(file: str) -> bool:
    """Return whether a file is an array of rows.

    Raises:
        StatementError: the file cannot be read.
    """
    try:
        with opener(file)(file, "rb") as content:
            return bool(content.read(4096).lstrip().startswith(b"["))
    except (OSError, EOFError, zlib.error) as error:
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
