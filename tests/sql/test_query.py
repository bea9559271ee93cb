"""Calls of table functions inside statements, run with functions that are made for these tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.plain import PlainEngine, plain_session
from xpsql.platform.engines.spark_sql.passage import Passage
from xpsql.platform.errors import ModelError, NotAvailableError, StatementError
from xpsql.platform.registry import Registry
from xpsql.platform.session import Session
from xpsql.platform.sql import query
from xpsql.platform.sql.base import Call, Pending, TableFunction

seen: list[Call] = []


def double(session: Session, call: Call) -> Pending:
    """Give the data, as it is when this is called, and twice its x."""
    assert call.data is not None
    with call.data.locating():
        rows = session.engine.execute(call.data.text)
    assert rows is not None
    twice = rows.append_column("twice", pa.array([2 * x for x in rows["x"].to_pylist()], pa.int64()))

    def make() -> list[Path]:
        seen.append(call)
        pq.write_table(twice, call.folder / "result.parquet")
        return [call.folder / "result.parquet"]

    return Pending(twice.schema, make)


def name(session: Session, call: Call) -> pa.Table:
    if call.model == "absent":
        raise ModelError("There is no model absent.", "absent")
    return pa.table({"model": [call.model], "version": pa.array([call.version], pa.int64())})


FUNCTIONS = Registry[TableFunction]("", {}).adding(
    TableFunction("DOUBLE", "", "", "required", (), double), TableFunction("NAME", "", "", "none", (), name)
)


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    monkeypatch.setattr(query, "FUNCTIONS", FUNCTIONS)
    seen.clear()
    with plain_session(tmp_path) as session:
        session.engine.execute("CREATE TABLE t AS SELECT range AS x, 'k' || range AS k FROM range(5)")
        yield session


def column(session: Session, statement: str) -> list[object]:
    return session.sql(statement).arrow().columns[0].to_pylist()


@pytest.mark.parametrize(
    ("statement", "values"),
    [
        ("SELECT twice FROM ML.DOUBLE(MODEL m, TABLE t) WHERE x > 2 ORDER BY x", [6, 8]),
        ("SELECT p.twice + t.x FROM t JOIN ML.DOUBLE(MODEL m, TABLE t) AS p USING (k) ORDER BY 1", [0, 3, 6, 9, 12]),
        ("SELECT max(twice) FROM (SELECT * FROM ML.DOUBLE(MODEL m, (SELECT * FROM t WHERE x < 3)) d) s", [4]),
    ],
)
def test_a_call_is_a_table_that_can_be_filtered_joined_and_nested(session: Session, statement: str, values: list[int]) -> None:
    assert column(session, statement) == values


def test_a_statement_may_hold_several_calls_and_write_a_table(session: Session) -> None:
    session.sql("""CREATE TABLE u AS SELECT a.twice, n.model FROM ML.DOUBLE(MODEL m, TABLE t) a CROSS JOIN ML.NAME(MODEL o) n;
                   INSERT INTO u SELECT twice, 'again' FROM ML.DOUBLE(MODEL m, (SELECT 50 AS x))""")
    assert column(session, "SELECT max(twice) FROM u") == [100]
    assert column(session, "SELECT count(*) FROM u WHERE model = 'o'") == [5]


def test_a_call_inside_a_call_runs_first(session: Session) -> None:
    inner = "SELECT twice AS x FROM ML.DOUBLE(MODEL m, TABLE t)"
    assert column(session, f"SELECT max(twice) FROM ML.DOUBLE(MODEL m, ({inner}))") == [16]


@pytest.mark.parametrize(
    ("before", "data"),
    [
        ("a AS (SELECT 7 AS x)", "TABLE a"),
        ("a AS (SELECT 6 AS x), b (x) AS (SELECT x + 1 FROM a)", "TABLE b"),
        ("a AS (SELECT 7 AS x)", "(WITH b AS (SELECT * FROM A) SELECT * FROM b)"),
        ("a AS (SELECT 1 AS x)", "(WITH a AS (SELECT 7 AS x) SELECT * FROM a)"),
        ("RECURSIVE a AS (SELECT 1 AS x UNION ALL SELECT x + 1 FROM a WHERE x < 7)", "(SELECT max(x) AS x FROM a)"),
    ],
)
def test_a_call_sees_the_with_queries_of_its_statement(session: Session, before: str, data: str) -> None:
    assert column(session, f"WITH {before} SELECT twice FROM ML.DOUBLE(MODEL m, {data})") == [14]


def test_a_with_query_may_hold_a_call_that_a_later_call_reads(session: Session) -> None:
    statement = """WITH a AS (SELECT twice AS x FROM ML.DOUBLE(MODEL m, TABLE t)), b (y) AS (SELECT 1)
                   SELECT max(twice) FROM ML.DOUBLE(MODEL m, TABLE a)"""
    assert column(session, statement) == [16]


@pytest.mark.parametrize("before", ["", "CREATE TABLE u AS ", "INSERT INTO t "])
def test_a_statement_that_cannot_run_is_refused_before_its_calls_work(session: Session, before: str) -> None:
    with pytest.raises(Exception, match="twise"):
        session.sql(f"{before}SELECT x, twise FROM ML.DOUBLE(MODEL m, TABLE t) JOIN ML.NAME(MODEL o) ON true")
    assert seen == []
    assert session.engine.relations() == ["t"]


def test_calls_read_the_rows_of_those_before_them(session: Session) -> None:
    statement = """WITH a AS (SELECT twice AS x FROM ML.DOUBLE(MODEL m, TABLE t)), b AS (SELECT x + 1 AS x FROM a)
                   SELECT sum(c.twice), sum(d.twice) FROM ML.DOUBLE(MODEL m, TABLE a) c, ML.DOUBLE(MODEL m, TABLE b) d
                   WHERE c.x + 1 = d.x"""
    assert session.sql(statement).arrow().to_pylist() == [{"sum(c.twice)": 40, "sum(d.twice)": 50}]


def test_a_with_query_of_another_subquery_is_not_seen(session: Session) -> None:
    with pytest.raises(Exception, match="hidden"):
        session.sql("SELECT * FROM (WITH hidden AS (SELECT 1 AS x) SELECT * FROM hidden) h, ML.DOUBLE(MODEL m, TABLE hidden) d")


def test_a_query_that_names_no_with_query_runs_as_it_is_written(session: Session) -> None:
    session.sql("WITH a AS (SELECT 1) SELECT * FROM a, ML.DOUBLE(MODEL m, (SELECT  x FROM t)) d")
    assert seen[0].data is not None
    assert seen[0].data.text == "SELECT  x FROM t"


def test_the_call_knows_which_columns_are_needed(session: Session) -> None:
    session.sql("SELECT twice FROM ML.DOUBLE(MODEL m, TABLE t); SELECT * FROM ML.DOUBLE(MODEL m VERSION 3, TABLE t)")
    assert [(call.columns, call.version) for call in seen] == [({"twice"}, None), (None, 3)]


def test_nothing_is_left_after_the_statement(session: Session) -> None:
    session.sql("SELECT * FROM ML.DOUBLE(MODEL m, TABLE t)")
    assert session.engine.relations() == ["t"]
    assert not seen[0].folder.exists()


def test_nothing_is_left_after_a_statement_that_fails(session: Session) -> None:
    with pytest.raises(StatementError):
        session.sql("SELECT * FROM ML.DOUBLE(MODEL m, TABLE t) JOIN nowhere")
    assert session.engine.relations() == ["t"]


def test_an_error_after_a_call_has_its_place_in_the_script(session: Session) -> None:
    with pytest.raises(StatementError) as raised:
        session.sql("SELECT 1;\nSELECT * FROM ML.DOUBLE(MODEL m, TABLE t) JOIN nowhere")
    assert raised.value.position == (2, 48, "nowhere")


def test_an_error_in_the_query_of_a_call_has_its_place_in_the_script(session: Session) -> None:
    script = "WITH a AS (SELECT 1 AS x)\nSELECT * FROM ML.DOUBLE(MODEL m, (SELECT x FROM a\n  JOIN ${table}))"
    with pytest.raises(StatementError) as raised:
        session.sql(script, table="nowhere")
    assert raised.value.position == (3, 8, "nowhere")


def test_an_error_of_a_query_without_a_place_shows_no_internal_view(session: Session) -> None:
    passage = query.Query.of(Passage.of("SELECT x FROM ML.DOUBLE(MODEL m, TABLE t)"))
    with pytest.raises(StatementError) as raised, passage.expanded(session) as text, text.locating():
        raise StatementError("It needs the column k.")
    assert raised.value.position == (1, 1, "SELECT x FROM ML.*(...)")


def test_the_engine_gets_the_rest_of_a_statement_as_written(session: Session) -> None:
    session.sql("select  /* kept */ twice from ML.DOUBLE(MODEL m, TABLE t)  -- dropped\n;")
    engine = session.engine
    assert isinstance(engine, PlainEngine)
    before, _, after = engine.executed[-2].partition("xpsql_call_")
    assert before == "select  /* kept */ twice from "
    assert len(after) == 12


def test_a_missing_model_has_its_place_in_the_script(session: Session) -> None:
    with pytest.raises(ModelError) as raised:
        session.sql("SELECT 1;\n  SELECT * FROM ML.NAME(MODEL absent)")
    assert raised.value.position == (2, 31, "absent")


@pytest.mark.parametrize("kind", ["", "OR REPLACE ", "TEMPORARY ", "OR REPLACE TEMP ", "OR REPLACE GLOBAL TEMPORARY "])
def test_no_view_holds_a_call(kind: str) -> None:
    with pytest.raises(NotAvailableError, match="A view cannot hold a call of ML"):
        query.Query.of(Passage.of(f"CREATE {kind}VIEW v AS SELECT * FROM ML.PREDICT(MODEL m, TABLE t)"))
