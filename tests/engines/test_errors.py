"""Errors of queries: what is wrong, where, and the nearest name."""

from __future__ import annotations

import pytest

from xpsql.platform.engines.duckdb.engine import DuckDBEngine
from xpsql.platform.errors import StatementError

CASES = [
    ("SELECT a FROM clicks WHERE\n  usr = 1", "There is no column usr. Did you mean user?", (2, 3, "usr")),
    ("SELECT usr FROM clicks", "There is no column usr. Did you mean user?", (1, 8, "usr")),
    ("SELECT usr, count(*) FROM clicks GROUP BY 1", "There is no column usr. Did you mean user?", (1, 8, "usr")),
    ("SELECT c.usr FROM clicks AS c", "There is no column usr. Did you mean user?", (1, 10, "usr")),
    ("SELECT c.a FROM (SELECT 1 AS x) AS c, clicks", "c has no column a; another table of the query has.", (1, 10, "a")),
    ("SELECT x.a FROM clicks AS c", "There is no table or alias x.", (1, 8, "x")),
    ("SELECT *\nFROM clicsk", "There is no table or view clicsk. Did you mean clicks?", (2, 6, "clicsk")),
    ("SELECT a FROM clicks, clicks AS d", "Column a is in several tables", (1, 8, "a")),
    ("SELECT a, count(*) FROM clicks", "Column a is neither grouped nor aggregated", (1, 8, "a")),
    ("SELECT a b c FROM clicks", "not Spark SQL", (1, 12, "c")),
    ("SELECT uper(user) FROM clicks", "uper", (1, 8, "uper")),
    ("SELECT upper(), 1 FROM clicks", "upper does not take these arguments. Write upper(s).", (1, 8, "upper")),
    ("SELECT log(1, 2, 3)", "log does not take these arguments. Write log(x) or log(b, x).", (1, 8, "log")),
    ("SELECT a\nFORM clicks", "'clicks' is not expected here. Did you mean FROM, not FORM?", (2, 6, "clicks")),
    ("SELECT a FROM clicks WHERE a =", "The statement is not Spark SQL: something is missing here.", (1, 30, "=")),
    ("SELECT a FROM clicks JOIN", "Expected table name but got the end.", (1, 22, "JOIN")),
    ("SELECT * FROM other.clicks", "There is no database other", (1, 21, "clicks")),
    ("SELECT 1,\n  * FROM clicks a JOIN clicks USING (a) JOIN clicks c", "* has several columns", (2, 3, "*")),
    ("SELECT split(user, '|') FROM clicks", "the pattern '|' of split matches nothing at all", None),
    ("SELECT aggregate(array(1), v -> v)", "aggregate does not take these arguments.", (1, 8, "aggregate")),
    ("SELECT zip_with(v -> v)", "zip_with does not take these arguments.", (1, 8, "zip_with")),
    ("SELECT json_tuple()", "does not take these arguments.", (1, 8, "json_tuple")),
    ("SELECT stack(0, 1)", "stack takes the number of rows", (1, 8, "stack")),
    ("SELECT explode(user) FROM clicks", "an array or a map, and user is of type string", (1, 8, "explode")),
    ("SELECT explode(array(a), array(a)) FROM clicks", "explode takes one array, got 2 arguments.", (1, 8, "explode")),
    ("SELECT 1 + explode(array(a)) FROM clicks", "explode makes rows, so it must be a column", (1, 12, "explode")),
    ("SELECT inline(array(struct(a, user))) AS (b) FROM clicks", "makes 2 columns (a, user), got 1 names", (1, 8, "inline")),
    ("SELECT inline(usr) FROM clicks", "There is no column usr. Did you mean user?", (1, 15, "usr")),
    (
        "SELECT CAST(DATE'2024-01-05' - DATE'2024-01-01' AS STRING)",
        "An interval has no text here. CAST it AS INT",
        (1, 17, "2024-01-05"),
    ),
    ("SELECT a - INTERVAL 7 DAYS FROM clicks", "- does not take (INT, INTERVAL). Use CAST.", None),
    ("SELECT sum(user) FROM clicks", "sum does not take (STRING). Use CAST.", (1, 8, "sum")),
    ("SELECT a, size(user) FROM clicks", "size takes an array or a map, got a value of type string. split(", (1, 11, "size")),
    ("SELECT slice(user, 1, 2) FROM clicks", "slice takes an array, got a value of type string.", (1, 8, "slice")),
    ("SELECT filter(a, x -> x > 1) FROM clicks", "filter takes an array, got a value of type int.", (1, 8, "filter")),
    (
        "SELECT array_union(array('x'), user) FROM clicks",
        "array_union takes an array, got a value of type string",
        (1, 8, "array_union"),
    ),
    (
        "SELECT map_concat(map('k', a), user) FROM clicks",
        "map_concat takes a map, got a value of type string.",
        (1, 8, "map_concat"),
    ),
    ("SELECT user[0] FROM clicks", "[] takes an array or a map, got a value of type string.", (1, 13, "0")),
    ("SELECT map_keys(array(a)) FROM clicks", "map_keys takes a map, got a value of type array<int>.", (1, 8, "map_keys")),
    ("SELECT a NOT LIKE 'x' FROM clicks", "LIKE does not take (INT, STRING). Use CAST.", (1, 14, "LIKE")),
    ("SELECT map()", "CAST(map() AS MAP<STRING, INT>)", None),
    ("INSERT INTO clicks (", "Expected a column, got end of statement.", (1, 21, "end of statement")),
    ("CREATE TABLE q ()", "The list of columns is empty", (1, 14, "q")),
    ("MERGE INTO clicks", "The engine runs SELECT", (1, 1, "MERGE")),
]


@pytest.mark.parametrize(("query", "message", "position"), CASES)
def test_an_error_says_what_is_wrong_and_where(
    engine: DuckDBEngine, query: str, message: str, position: tuple[int, int, str] | None
) -> None:
    engine.execute("CREATE TABLE clicks AS SELECT 1 AS a, 'u' AS user")
    with pytest.raises(StatementError) as caught:
        engine.execute(query)
    assert message in caught.value.message
    assert caught.value.position == position


@pytest.mark.parametrize(
    "query",
    [
        "SELECT CAST(user AS INT) FROM clicks",
        "SELECT raise_error('mine') FROM clicks",
        "SELECT a FROM clicks UNION ALL SELECT a, user FROM clicks",
        "SELECT (SELECT a FROM twice) FROM clicks",
        "SELECT bucketize(3, 'x') FROM clicks",
        "SELECT a FROM clicks GROUP BY",
        "SELECT 'x",
        "",
        "CREATE TABLE",
    ],
)
def test_nothing_of_duckdb_is_in_a_message(engine: DuckDBEngine, query: str) -> None:
    engine.execute("CREATE TABLE clicks AS SELECT 1 AS a, 'u' AS user")
    engine.execute("CREATE TABLE twice AS SELECT 1 AS a UNION ALL SELECT 2")
    with pytest.raises(StatementError) as caught:
        engine.execute(query)
    message = caught.value.message
    for leaked in (
        "xpsql_",
        "Error:",
        "LINE 1",
        "INT32",
        "VARCHAR",
        "LIST",
        "lambda",
        "spark_",
        "sqlglot",
        "DuckDB",
        "duckdb",
        "pg_",
    ):
        assert leaked not in message
    assert message.endswith((".", "!", "?"))


def test_the_position_of_a_query_inside_a_statement_is_one_in_the_statement(engine: DuckDBEngine) -> None:
    with pytest.raises(StatementError) as caught:
        engine.execute("CREATE TABLE t AS\n  SELECT *\n  FROM nowhere")
    assert caught.value.position == (3, 8, "nowhere")


def test_a_query_is_expected_where_a_query_is_read(engine: DuckDBEngine) -> None:
    with pytest.raises(StatementError, match="Expected a query"):
        engine.schema("DROP TABLE t")


@pytest.mark.parametrize(
    ("options", "wrong"),
    [
        ("path 'log.csv', hedaer 'true'", "hedaer 'true'"),
        ("header 'true', path 'no_such.csv'", "path 'no_such.csv'"),
        ("header 'true'", "v"),
    ],
)
def test_an_error_of_an_option_is_at_the_option(engine: DuckDBEngine, options: str, wrong: str) -> None:
    statement = f"CREATE TEMPORARY VIEW v USING csv\nOPTIONS ({options})"
    with pytest.raises(StatementError) as caught:
        engine.execute(statement)
    assert caught.value.position is not None
    assert caught.value.position.text == wrong
