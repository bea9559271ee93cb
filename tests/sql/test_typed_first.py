"""What people type first, coming from other systems, works or is answered by what to write here."""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import xpsql
from tests.cases import lengthy
from xpsql.platform.cli.output import write_table
from xpsql.platform.errors import DataError, StatementError


def refused(session: xpsql.Session, text: str) -> StatementError:
    with pytest.raises(StatementError) as caught:
        session.sql(text)
    return caught.value


def test_a_variable_of_python_that_a_query_names_has_to_be_registered(session: xpsql.Session) -> None:
    visits = pa.table({"a": [1]})
    error = refused(session, "SELECT * FROM visits")
    assert error.__notes__ == [
        "The variable visits is a frame; session.register('visits', visits) makes it readable in statements."
    ]
    session.register("visits", visits)
    assert session.sql("SELECT * FROM visits").fetchall() == [(1,)]


def test_a_variable_that_is_no_frame_is_not_named(session: xpsql.Session) -> None:
    visits = "no frame"
    assert not hasattr(refused(session, "SELECT * FROM visits"), "__notes__"), visits


@pytest.mark.parametrize("words", ["DESCRIBE", "DESC", "DESCRIBE TABLE"])
def test_files_are_described(words: str, session: xpsql.Session, tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1], "b": ["x"]}), tmp_path / "f.parquet")
    rows = session.sql(f"{words} parquet.`{tmp_path}/f.parquet`").fetchall()
    assert [row[:2] for row in rows] == [("a", "bigint"), ("b", "string")]


def test_a_file_that_is_not_there_is_shown_where_it_stands(session: xpsql.Session) -> None:
    error = refused(session, "DESCRIBE parquet.`/nowhere/f.parquet`")
    assert error.position is not None
    assert error.position.line == 1
    assert "/nowhere/f.parquet" in error.message


@pytest.mark.parametrize(
    ("text", "instead"),
    [
        ("SUMMARIZE log", "There is no SUMMARIZE. DESCRIBE t lists columns"),
        ("EXPLAIN SELECT 1", "DESCRIBE SELECT ... lists the columns of a query"),
    ],
)
def test_statements_of_other_systems_name_ours(text: str, instead: str, session: xpsql.Session) -> None:
    assert instead in refused(session, text).message


@pytest.mark.parametrize("clause", ["VERSION AS OF 1", "TIMESTAMP AS OF '2026-01-01'"])
def test_a_table_without_versions_says_so(clause: str, session: xpsql.Session) -> None:
    session.sql("CREATE TABLE log AS SELECT 1 AS a")
    for table in ("log", "parquet.`/data/log.parquet`"):
        error = refused(session, f"SELECT * FROM {table} {clause}")
        assert "keep no versions" in error.message
        assert "delta.`folder` VERSION AS OF 3" in error.message


@pytest.mark.parametrize(("column", "side"), [("a", "right"), ("b", "left")])
def test_join_using_a_column_of_one_side_names_the_other(column: str, side: str, session: xpsql.Session) -> None:
    error = refused(session, f"SELECT * FROM (SELECT 1 AS a) JOIN (SELECT 1 AS b) USING ({column})")
    assert error.message.startswith(f"The tables on the {side} of JOIN ... USING have no column {column}.")
    assert error.position is not None


@lengthy
@pytest.mark.parametrize("label", ["CAST(id AS DOUBLE)", "id"])
def test_a_label_of_numbers_names_what_learns_them(label: str, session: xpsql.Session) -> None:
    session.sql(f"CREATE TABLE log AS SELECT {label} AS label, concat('u', id % 5) AS u FROM range(100)")
    for text in ("TABLE log", "SELECT label + 1 AS label, u FROM log"):
        query = "SELECT * FROM log" if text == "TABLE log" else text
        with pytest.raises((StatementError, DataError), match="USING linear_regression, or with the option loss = 'squared'"):
            session.sql(f"TRAIN MODEL m USING fm LABEL label AS {query}")


def test_the_text_null_and_a_value_that_is_absent_are_told_apart(session: xpsql.Session) -> None:
    shown = repr(session.sql("SELECT 'NULL' AS a, CAST(NULL AS STRING) AS b, array('NULL', NULL) AS c"))
    assert shown.splitlines()[2].split("  ") == ["'NULL'", "NULL", "['NULL', NULL]"]


def test_what_is_read_whole_is_shown_whole(session: xpsql.Session, capsys: pytest.CaptureFixture[str]) -> None:
    columns = ", ".join(f"{n} AS c{n}" for n in range(130))
    described = session.sql(f"DESCRIBE SELECT {columns}")
    assert described._repr_html_().count("<tr>") == 131
    described.show()
    write_table(described.table)
    assert capsys.readouterr().out.count("c129") == 2
    assert "... 110 more rows" in session.sql("SELECT * FROM range(130)")._repr_html_()
    assert "more rows" not in repr(session.sql("SHOW ALGORITHMS"))


def test_frames_of_a_library_that_is_not_installed_name_it(session: xpsql.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    found = session.sql("SELECT 1 AS a")
    for package, frame in {"pandas": found.to_pandas, "polars": found.pl}.items():
        monkeypatch.setitem(sys.modules, package, None)  # as if it were not installed
        with pytest.raises(StatementError, match=f"needs the package {package}: pip install {package}"):
            frame()


@pytest.mark.parametrize("package", ["torch", "flax", "equinox"])
def test_a_network_without_its_package_names_the_extra(
    package: str, session: xpsql.Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)  # as if it were not installed
    (tmp_path / "net.py").write_text(f"import {package}\n")
    session.sql("CREATE TABLE log AS SELECT CAST(id % 2 AS INT) AS y, id AS u FROM range(10)")
    error = refused(session, f"TRAIN MODEL m USING network (file = '{tmp_path}/net.py') LABEL y AS SELECT * FROM log")
    assert f"needs the package {package}: pip install 'xpsql[{package}]'." in error.message
