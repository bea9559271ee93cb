"""Macros are made in a database when a query first calls them."""

from __future__ import annotations

import duckdb

from tests.cases import lengthy
from xpsql.platform.engines.duckdb.connection import connect, cursor
from xpsql.platform.engines.duckdb.translation.aggregates import AGGREGATES
from xpsql.platform.engines.duckdb.translation.macros import MACROS, make_macros
from xpsql.platform.engines.spark_sql.words import AGGREGATE_NAMES
from xpsql.platform.udf import register


def macros(connection: object) -> set[str]:
    found = connection.execute("SELECT function_name FROM duckdb_functions() WHERE function_name IN " + str(tuple(MACROS)))  # type: ignore[attr-defined]
    return {name for (name,) in found.fetchall()}


def test_a_query_makes_what_it_calls_and_what_that_calls_once_for_all_connections() -> None:
    connection = connect(1)
    assert not macros(connection)
    make_macros("SELECT SPARK_STRING(1.5)", cursor(connection))
    assert macros(connection) == {"xpsql_scientific", "xpsql_real_text", "spark_isnan", "xpsql_decimal_text", "spark_string"}
    connection.execute("DROP MACRO spark_string")
    make_macros("SELECT spark_string(1.5)", cursor(connection))
    assert "spark_string" not in macros(connection)  # it is not made a second time


@lengthy
def test_every_macro_can_be_made_after_those_that_it_calls() -> None:
    for name in MACROS:
        connection = duckdb.connect()
        register(connection)
        make_macros(f"SELECT {name}()", connection)  # which refuses a macro that calls what it does not know


def test_the_names_of_aggregates_are_those_that_are_translated() -> None:
    assert set(AGGREGATES) == AGGREGATE_NAMES
