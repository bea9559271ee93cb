"""The points of PEP 249, one by one."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.cases import lengthy
from xpsql import dbapi

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[dbapi.Connection]:
    with dbapi.connect(tmp_path) as connection:
        yield connection


def test_the_module_says_what_it_is() -> None:
    assert (dbapi.apilevel, dbapi.threadsafety, dbapi.paramstyle) == ("2.0", 1, "qmark")


def test_errors_are_the_tree_of_pep_249() -> None:
    assert issubclass(dbapi.Warning, Exception)
    assert issubclass(dbapi.InterfaceError, dbapi.Error)
    assert issubclass(dbapi.DatabaseError, dbapi.Error)
    for name in ("Data", "Operational", "Integrity", "Internal", "Programming", "NotSupported"):
        assert issubclass(getattr(dbapi, f"{name}Error"), dbapi.DatabaseError)


@lengthy
def test_spark_gives_the_same_descriptions_rows_and_errors(spark: SparkSession, tmp_path: Path) -> None:
    with dbapi.connect(tmp_path, engine=spark) as connection:
        test_a_query_has_a_description_and_rows(connection)
        test_parameters_are_values_not_text(connection)
        test_a_statement_that_cannot_run_is_a_programming_error_and_leaves_no_result(connection)


def test_a_query_has_a_description_and_rows(connection: dbapi.Connection) -> None:
    cursor = connection.cursor()
    assert cursor.description is None
    assert cursor.rowcount == -1
    cursor.execute("SELECT 1 AS n, 'a' AS s, DATE'2026-01-02' AS d, X'00' AS b, array(1) AS l")
    assert cursor.description is not None
    assert [(column[0], column[1], len(column)) for column in cursor.description] == [
        *(("n", dbapi.NUMBER, 7), ("s", dbapi.STRING, 7), ("d", dbapi.DATETIME, 7), ("b", dbapi.BINARY, 7), ("l", None, 7)),
    ]
    assert cursor.rowcount == 1
    assert cursor.fetchone() == (1, "a", datetime.date(2026, 1, 2), b"\0", [1])
    assert cursor.fetchone() is None


def test_rows_are_fetched_in_portions(connection: dbapi.Connection) -> None:
    cursor = connection.cursor().execute("SELECT * FROM VALUES (1), (2), (3), (4), (5) AS t(n) ORDER BY n")
    assert cursor.fetchmany() == [(1,)]
    assert cursor.fetchmany(2) == [(2,), (3,)]
    cursor.arraysize = 5
    assert cursor.fetchmany() == [(4,), (5,)]
    assert cursor.fetchall() == []
    assert list(connection.cursor().execute("SELECT 7")) == [(7,)]


def test_parameters_are_values_not_text(connection: dbapi.Connection) -> None:
    cursor = connection.cursor()
    cursor.execute("CREATE TABLE t (n INT, s STRING)")
    cursor.executemany("INSERT INTO t SELECT ?, ?", [(1, "it's"), (2, None)])
    assert cursor.execute("SELECT n FROM t WHERE s = ?", ["it's"]).fetchall() == [(1,)]
    assert cursor.execute("SELECT n FROM t WHERE s = ?", ["' OR '1' = '1"]).fetchall() == []


def test_constructors_make_the_values_of_their_types(connection: dbapi.Connection) -> None:
    made = (dbapi.Date(2026, 1, 2), dbapi.Timestamp(2026, 1, 2, 3, 4, 5), dbapi.Binary(b"x"))
    (row,) = connection.cursor().execute("SELECT ?, ?, ?", made).fetchall()
    assert row == (made[0], made[1].replace(tzinfo=datetime.UTC), made[2])
    assert dbapi.DateFromTicks(0).year in (1969, 1970)
    assert dbapi.TimeFromTicks(0) == dbapi.TimestampFromTicks(0).time()
    assert dbapi.Time(1, 2).minute == 2


def test_a_statement_that_cannot_run_is_a_programming_error_and_leaves_no_result(connection: dbapi.Connection) -> None:
    cursor = connection.cursor().execute("SELECT 1")
    with pytest.raises(dbapi.ProgrammingError, match="There is no table or view nowhere"):
        cursor.execute("SELECT * FROM nowhere")
    with pytest.raises(dbapi.ProgrammingError, match="There is no result"):
        cursor.fetchall()


def test_a_model_that_is_absent_is_an_operational_error(connection: dbapi.Connection) -> None:
    with pytest.raises(dbapi.OperationalError, match="m"):
        connection.cursor().execute("DESCRIBE MODEL m")


def test_statements_take_effect_at_once(connection: dbapi.Connection) -> None:
    connection.commit()
    with pytest.raises(dbapi.NotSupportedError, match="at once"):
        connection.rollback()


def test_what_is_closed_runs_nothing_more(connection: dbapi.Connection) -> None:
    cursor, other = connection.cursor(), connection.cursor()
    cursor.setinputsizes([1])
    cursor.setoutputsize(1, 2)
    cursor.close()
    with pytest.raises(dbapi.InterfaceError, match="cursor is closed"):
        cursor.execute("SELECT 1")
    connection.close()
    for use in (connection.cursor, connection.commit, other.fetchone):
        with pytest.raises(dbapi.InterfaceError, match="connection is closed"):
            use()
