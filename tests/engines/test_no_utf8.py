"""Text that is no UTF-8 is an error that names it, and the session goes on."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.engines.rows import rows
from xpsql.platform.engines.base import Staged
from xpsql.platform.engines.duckdb.engine import DuckDBEngine
from xpsql.platform.errors import NoTextError, StatementError


def no_text() -> pa.Array:
    values = pa.array([b"ok", b"\xff\xfe"], pa.binary())
    return pa.Array.from_buffers(pa.string(), 2, values.buffers())


@pytest.mark.parametrize(
    "expression", ["upper(v)", "lower(v)", "trim(v)", "reverse(v)", "initcap(v)", "regexp_replace(v, 'a', 'b')"]
)
def test_expressions_read_piece_by_piece_name_file_and_column_and_the_next_query_runs(
    engine: DuckDBEngine, tmp_path: Path, expression: str
) -> None:
    pq.write_table(pa.table({"v": no_text()}), tmp_path / "bad.parquet")
    pq.write_table(pa.table({"v": ["a", "b"]}), tmp_path / "good.parquet")
    scan = engine.scan(f"SELECT {expression} AS v FROM parquet.`{tmp_path}/bad.parquet`")
    good = engine.scan(f"SELECT {expression} AS v FROM parquet.`{tmp_path}/good.parquet`")
    assert not isinstance(scan, Staged)
    assert not isinstance(good, Staged)
    with pytest.raises(NoTextError, match=r"Row group 0 of .*bad\.parquet: Column v has bytes that are no UTF-8\."):
        list(scan.read(scan.splits()[0], ["v"], 10))
    assert [len(piece) for piece in good.read(good.splits()[0], ["v"], 10)] == [2]
    assert rows(engine, "SELECT 1 AS a") == [(1,)]


def test_a_fatal_failure_of_a_query_ends_that_query_only(engine: DuckDBEngine) -> None:
    engine.register_rows("bad", pa.table({"v": no_text()}))
    with pytest.raises(StatementError, match="A text has bytes that are no UTF-8"):
        engine.execute("SELECT upper(v) AS v FROM bad")
    assert rows(engine, "SELECT upper('a') AS a") == [("A",)]


@pytest.mark.parametrize(
    ("name", "content"),
    [("bad.csv", b"a,b\n1,\xff\n"), ("bad.json", b'{"a": "\xff"}\n')],
)
def test_files_of_text_are_named_with_the_remedy(engine: DuckDBEngine, tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(StatementError, match=rf"{name} .*UTF-8.*iconv -f WINDOWS-1252 -t UTF-8"):
        engine.execute(f"SELECT * FROM {name[4:]}.`{tmp_path}/{name}`")


def test_bytes_of_another_character_set_are_decoded(engine: DuckDBEngine) -> None:
    assert rows(engine, "SELECT decode(X'E9', 'ISO-8859-1') AS a") == [("é",)]
    with pytest.raises(StatementError, match="decode takes the character sets UTF-8, ISO-8859-1, got 'UTF-16'"):
        engine.execute("SELECT decode(X'E9', 'UTF-16')")


def test_files_that_differ_are_named_and_the_option_is_that_of_spark(engine: DuckDBEngine, tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1], "b": [2]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"a": [1]}), tmp_path / "b.parquet")
    with pytest.raises(StatementError, match=r"b\.parquet has no column b, which .*a\.parquet has\. .*mergeSchema 'true'"):
        engine.execute(f"SELECT * FROM parquet.`{tmp_path}`")
    pq.write_table(pa.table({"a": ["x"], "b": [2]}), tmp_path / "b.parquet")
    with pytest.raises(StatementError, match=r"Column a of .*b\.parquet is STRING, and the first file has BIGINT\."):
        engine.execute(f"SELECT * FROM parquet.`{tmp_path}`")


def test_a_line_of_csv_may_be_long(engine: DuckDBEngine, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,q\n1," + "x" * 3_000_000 + "\n2,y\n")
    engine.execute(f"CREATE TEMPORARY VIEW v USING csv OPTIONS (path '{tmp_path}/a.csv', header 'true')")
    assert rows(engine, "SELECT length(q) AS n FROM v") == [(3_000_000,), (1,)]
