"""Types of CSV columns: what texts become in them, and inference from all their values.

Source: Spark's org.apache.spark.sql.catalyst.csv.UnivocityParser, and the lattice of types of its CSVInferSchema.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ....errors import StatementError
from ....spark_types import quoted
from ...waiting import awaited
from ..translation import make_macros

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

INTEGER = r"[+-]?[0-9]+"
WHOLE = r"[+-]?[0-9]+\.?([eE][+-]?0+)?"
DECIMAL = r"[+-]?([0-9][0-9,]*\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?"
DATE = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
TRUTH_WORDS = "(?i)true|false"
WHITE = r"[\x00-\x20]*"
PLAIN = r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,2})?"
HEXADECIMAL = r"0[xX]([0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+"
REAL = rf"{WHITE}[+-]?((([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|{HEXADECIMAL})[dDfF]?|NaN|Infinity){WHITE}|-?Inf"
TIME = r"^[\x00-\x20\x7f]*([+-]?[0-9]{4}|T?[0-9]{1,2}:)"
INTEGERS = frozenset(("TINYINT", "SMALLINT", "INT", "INTEGER", "BIGINT"))
REALS = frozenset(("FLOAT", "REAL", "DOUBLE"))
TEXTS = frozenset(("TEXT", "VARCHAR"))
INT, LONG, BIG, DOUBLE, DAY, MOMENT, TRUTH, TEXT = (1 << bit for bit in range(8))
# A column has the first type that takes all kinds of values found in it.
TYPES = (
    ("INTEGER", INT),
    ("BIGINT", INT | LONG),
    ("DECIMAL", INT | LONG | BIG),
    ("DOUBLE", INT | LONG | BIG | DOUBLE),
    ("DATE", DAY),
    ("TIMESTAMPTZ", DAY | MOMENT),
    ("BOOLEAN", TRUTH),
)
LARGEST = 38
DIGITS = {INT: 10, LONG: 20}


def cast_of(name: str, kind: str) -> str:
    """Return a column of texts in a type; a text that is none is NULL, as in Spark's permissive mode.

    Raises:
        StatementError: there is no such type of CSV columns.
    """
    value = quoted(name)
    return value if kind in TEXTS else f"{converted(value, kind, name)} AS {value}"


def converted(value: str, kind: str, name: str) -> str:
    """Return a text in a type.

    A condition also keeps DuckDB from moving a cast into its reader, where a text that fails is an error.
    """
    family = kind.partition("(")[0]
    if family in REALS:
        return f"CAST({real(value)} AS {kind})"
    if family == "DATE":
        return f"xpsql_date_of({value})"
    if family == "TIMESTAMPTZ":
        return f"xpsql_timestamp_of({value})"
    if family == "DECIMAL":
        plain = f"replace({value}, ',', '')"
        return f"TRY_CAST(CASE WHEN regexp_full_match({value}, '{DECIMAL}') THEN {plain} END AS {kind})"
    pattern = INTEGER if family in INTEGERS else TRUTH_WORDS if family == "BOOLEAN" else None
    if pattern is None:
        raise StatementError(f"A column of a CSV file cannot be {kind}, got it for {name}. Read it as STRING.")
    return f"TRY_CAST(CASE WHEN regexp_full_match({value}, '{pattern}') THEN {value} END AS {kind})"


def real(value: str) -> str:
    """Return a text as DOUBLE; of the words for what is no number it has other ones than CAST."""
    return (
        f"CASE WHEN regexp_full_match({value}, '{PLAIN}') THEN TRY_CAST({value} AS DOUBLE) "
        f"WHEN regexp_full_match({value}, '{REAL}') THEN xpsql_text_real({value}) END"
    )


def inferred(connection: DuckDBPyConnection, rows: str, names: Sequence[str]) -> dict[str, str]:
    """Return the DuckDB type of each column of texts, as Spark's inferSchema finds it.

    Args:
        rows: what follows FROM: DuckDB's reader, all columns texts.
    """
    found = asked(connection, rows, {name: f"bit_or({kind_of(quoted(name))})" for name in names})
    types = {name: type_of(kinds or 0) for name, kinds in found.items()}
    whole = {name: f"max({digits_of(quoted(name))})" for name, kind in types.items() if kind == "DECIMAL"}
    for name, digits in asked(connection, rows, whole).items():
        least = [least for kind, least in DIGITS.items() if found[name] & kind]
        most = max([digits, *least])
        types[name] = f"DECIMAL({most},0)" if most <= LARGEST else "DOUBLE"
    return types


def asked(connection: DuckDBPyConnection, rows: str, aggregates: Mapping[str, str]) -> dict[str, int]:
    """Return aggregates of rows, by name."""
    if not aggregates:
        return {}
    sql = f"SELECT {', '.join(aggregates.values())} FROM {rows}"
    make_macros(sql, connection)
    answers = awaited(connection, lambda: connection.execute(sql).fetchone())
    assert answers is not None  # an aggregate has one row
    return dict(zip(aggregates, answers, strict=True))


def kind_of(value: str) -> str:
    """Return the expression of the kind of a value: one of the bits above, NULL for NULL."""
    return (
        f"CASE WHEN {value} IS NULL THEN NULL "
        f"WHEN regexp_full_match({value}, '{INTEGER}') THEN CASE WHEN TRY_CAST({value} AS INTEGER) IS NOT NULL THEN {INT} "
        f"WHEN TRY_CAST({value} AS BIGINT) IS NOT NULL THEN {LONG} ELSE {BIG} END "
        f"WHEN regexp_full_match({value}, '{REAL}') "
        f"THEN CASE WHEN regexp_full_match({value}, '{WHOLE}') THEN {BIG} ELSE {DOUBLE} END "
        f"WHEN regexp_matches({value}, '{TIME}') "
        f"THEN CASE WHEN regexp_full_match({value}, '{DATE}') AND TRY_CAST({value} AS DATE) IS NOT NULL THEN {DAY} "
        f"WHEN xpsql_timestamp_of({value}) IS NOT NULL THEN {MOMENT} ELSE {TEXT} END "
        f"WHEN lower({value}) IN ('true', 'false') THEN {TRUTH} ELSE {TEXT} END"
    )


def digits_of(value: str) -> str:
    """Return the expression of the digits of a whole number, with a point or an exponent or without."""
    return f"length(ltrim(regexp_replace({value}, '[.]?([eE].*)?$', ''), '+-0'))"


def type_of(kinds: int) -> str:
    """Return the type of a column with these kinds of values."""
    return next((name for name, taken in TYPES if kinds and not kinds & ~taken), "VARCHAR")
