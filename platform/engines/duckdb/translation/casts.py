"""Casts with Spark's meaning: texts of numbers and times, truncation, and errors where DuckDB rounds or guesses."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sqlglot import exp

from ....errors import StatementError
from .calls import call, case, cast, filled, function, string
from .kinds import INSTANT, child, names

if TYPE_CHECKING:
    from duckdb.sqltypes import DuckDBPyType

INTEGRAL = frozenset(("TINYINT", "SMALLINT", "INT", "INTEGER", "BIGINT"))
REALS = frozenset(("DOUBLE", "REAL", "FLOAT"))
NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,2})?")
PLAIN = frozenset(("tinyint", "smallint", "integer", "bigint", "boolean"))
NUMERIC = PLAIN | {"decimal", "hugeint", "double", "float"}


def spark_cast(value: exp.Expr, source: DuckDBPyType | None, to: exp.DataType) -> exp.Expr:
    """Return the cast of a rewritten value, whose type is `source` if known, as Spark's CAST does it."""
    target = to.sql("duckdb")
    if target in ("TEXT", "VARCHAR") or target.startswith("VARCHAR("):
        return string_of(value, source)
    if target in INTEGRAL and source is not None and source.id == "interval":
        return cast(call("datepart", string("day"), value), target)
    if target in INTEGRAL:
        plain = source is not None and source.id in PLAIN
        return cast(value if plain else call("xpsql_integral", value), target)
    if target in REALS:
        plain = (source is not None and source.id in NUMERIC) or is_number(value)
        real = value if plain else call("xpsql_real", value)
        return cast(real, target)
    if target == "BOOLEAN":
        return call("spark_boolean", value)
    if target == "DATE":
        if source is not None and source.id in ("date", INSTANT):
            return cast(value, "DATE")
        return call("spark_to_date", value)
    if target == "TIMESTAMPTZ":
        if source is not None and source.id in ("date", INSTANT):
            return cast(value, "TIMESTAMPTZ")
        return call("spark_to_timestamp", value)
    if target.startswith("DECIMAL") and source is not None and source.id == "varchar":
        return cast(call("xpsql_exact", value), target)
    if target == "BLOB":
        return call("encode", value) if source is None or source.id == "varchar" else cast(value, target)
    if to.is_type("array") and source is not None and source.id == "list":
        element = child(source, 0)
        item = spark_cast(exp.column("e"), element, to.expressions[0])
        return call("list_transform", value, function(item, "e"))
    return cast(value, target)


def is_number(value: exp.Expr) -> bool:
    """Return whether a value is a literal such as '0.5' that DuckDB reads as Spark does; its cast stays a constant."""
    return isinstance(value, exp.Literal) and NUMBER.fullmatch(value.this) is not None


def spark_try_cast(value: exp.Expr, source: DuckDBPyType | None, to: exp.DataType) -> exp.Expr:
    """Return the cast that gives NULL where `spark_cast` fails."""
    target = to.sql("duckdb")
    if target in INTEGRAL:
        return exp.TryCast(this=call("xpsql_try_integral", value), to=to)
    if target in REALS:
        return exp.TryCast(this=call("xpsql_try_real", value), to=to)
    if target == "BOOLEAN":
        return call("xpsql_try_boolean", value)
    if target == "DATE":
        return call("xpsql_try_date", value)
    if target == "TIMESTAMPTZ":
        return call("xpsql_try_timestamp", value)
    if target in ("TEXT", "VARCHAR"):
        return string_of(value, source)
    if target.startswith("DECIMAL") and source is not None and source.id == "varchar":
        value = call("xpsql_decimal_of", value)
    return exp.TryCast(this=value, to=to)


def string_of(value: exp.Expr, source: DuckDBPyType | None) -> exp.Expr:
    """Return CAST(value AS STRING).

    Raises:
        StatementError: of an interval, whose text would not be Spark's.
    """
    if source is not None and source.id == "interval":
        raise StatementError("An interval has no text here. CAST it AS INT for its days, or use datediff(a, b).")
    if source is None or source.id not in ("list", "map", "struct"):
        if source is not None and source.id in PLAIN | {"date"}:
            return cast(value, "VARCHAR")
        return value if source is not None and source.id == "varchar" else call("spark_string", value)
    text = concatenated(*nested(value, source))
    return case(exp.Is(this=value.copy(), expression=exp.null()), exp.null(), text)


def nested(value: exp.Expr, source: DuckDBPyType) -> list[exp.Expr]:
    if source.id == "list":
        return [string("["), joined(value, null_text(exp.column("e"), child(source, 0))), string("]")]
    if source.id == "map":
        key, item = child(source, 0), child(source, 1)
        entry = concatenated(string_of(filled("e.key"), key), string(" -> "), null_text(filled("e.value"), item))
        return [string("{"), joined(call("map_entries", value), entry), string("}")]
    fields = [
        null_text(call("struct_extract", value.copy(), string(name)), child(source, k)) for k, name in enumerate(names(source))
    ]
    commas = [part for field in fields for part in (string(", "), field)]
    return [string("{"), *commas[1:], string("}")]


def null_text(value: exp.Expr, source: DuckDBPyType | None) -> exp.Expr:
    return exp.Coalesce(this=string_of(value, source), expressions=[string("null")])


def joined(values: exp.Expr, item: exp.Expr) -> exp.Expr:
    return call("array_to_string", call("list_transform", values, function(item, "e")), string(", "))


def concatenated(*parts: exp.Expr) -> exp.Expr:
    """Return `a || b || ...`; NULL where a part is."""
    tree = parts[0]
    for part in parts[1:]:
        tree = exp.DPipe(this=tree, expression=part)
    return exp.Paren(this=tree)
