"""Tables of Delta: versions that are named, and what statements write."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import xpsql
from tests.engines.rows import rows
from xpsql.platform.engines.duckdb.engine import DuckDBEngine
from xpsql.platform.engines.parquet_scan import ParquetScan
from xpsql.platform.errors import NotAvailableError, StatementError
from xpsql.platform.progress import SilentReporter

deltalake = pytest.importorskip("deltalake")


def same(engine: DuckDBEngine, folder: Path) -> None:
    """Require the rows that deltalake reads."""
    found = engine.execute(f"SELECT * FROM delta.`{folder}`")
    assert found is not None
    expected = deltalake.DeltaTable(folder).to_pyarrow_table()
    assert found.column_names == expected.column_names
    assert sorted(map(str, found.to_pylist())) == sorted(map(str, expected.cast(found.schema).to_pylist()))


def test_statements_make_and_fill_tables(engine: DuckDBEngine, tmp_path: Path) -> None:
    folder = tmp_path / "Lake.d" / "T"
    engine.execute(
        f"CREATE TABLE delta.`{folder}` USING delta PARTITIONED BY (day) AS SELECT id AS x, CAST(id AS DECIMAL(5, 2)) AS d, "
        "array(id) AS a, TIMESTAMP'2026-11-10 01:00:00' AS at, date_add(DATE'2026-11-10', CAST(id % 2 AS INT)) AS day "
        "FROM range(4)"
    )
    same(engine, folder)
    engine.execute(f"INSERT INTO delta.`{folder}` (x, day) VALUES (9, DATE'2026-11-12'), (10, NULL)")
    engine.execute(f"INSERT OVERWRITE delta.`{folder}` PARTITION (day = '2026-11-10') (x) VALUES (100)")
    assert sorted(rows(engine, f"SELECT x FROM delta.`{folder}`")) == [(1,), (3,), (9,), (10,), (100,)]
    same(engine, folder)
    engine.execute(f"INSERT OVERWRITE delta.`{folder}` SELECT * FROM delta.`{folder}` WHERE x = 9")
    assert rows(engine, f"SELECT x FROM delta.`{folder}`") == [(9,)]
    engine.execute(f"CREATE TABLE IF NOT EXISTS delta.`{folder}` AS SELECT 1 AS a")
    assert deltalake.DeltaTable(folder).version() == 3
    engine.execute(f"CREATE TABLE delta.`{tmp_path}/none` (a INT, b STRING)")
    assert rows(engine, f"SELECT * FROM delta.`{tmp_path}/none`") == []


def test_a_version_is_named_by_number_or_time(engine: DuckDBEngine, tmp_path: Path) -> None:
    table = f"delta.`{tmp_path}/t`"
    engine.execute(f"CREATE TABLE {table} AS SELECT 1 AS x")
    engine.execute(f"INSERT INTO {table} VALUES (2)")
    assert rows(engine, f"SELECT x FROM {table} VERSION AS OF 0") == [(1,)]
    later = datetime.now(UTC) + timedelta(hours=1)
    assert rows(engine, f"SELECT count(*) FROM {table} TIMESTAMP AS OF '{later:%Y-%m-%d %H:%M:%S}'") == [(2,)]
    scan = engine.scan(f"SELECT x + 1 AS y FROM {table} VERSION AS OF 0 WHERE x > 0")
    assert isinstance(scan, ParquetScan)
    assert len(scan.files) == 1
    (source,) = engine.sources(f"SELECT x FROM {table} VERSION AS OF 0")
    assert (source.kind, source.snapshot, source.files) == ("delta", "0", 1)


def test_a_version_keeps_the_number_that_it_learned_and_weights_are_exported(tmp_path: Path) -> None:
    log, weights = f"delta.`{tmp_path}/log`", f"delta.`{tmp_path}/weights`"
    with xpsql.connect(tmp_path / "warehouse", reporter=SilentReporter()) as session:
        session.sql(f"CREATE TABLE {log} AS SELECT CAST(id % 2 AS INT) AS label, concat('u', id % 7) AS user FROM range(200)")
        session.sql(f"INSERT INTO {log} VALUES (1, 'u9')")
        session.sql(f"TRAIN MODEL m USING xftrl AS SELECT label, user FROM {log} VERSION AS OF 0")
        (source,) = session.models.version("m", 1).manifest.sources
        assert (source.kind, source.name, source.snapshot) == ("delta", f"{log} VERSION AS OF 0", "0")
        said = session.sql("SHOW PROVENANCE OF MODEL m").arrow().to_pylist()
        assert any("version 0" in str(row) for row in said), said
        session.sql(f"EXPORT MODEL m TO TABLE {weights}")
        exported = deltalake.DeltaTable(tmp_path / "weights").to_pyarrow_table()
        assert sorted(exported["key"].to_pylist()) == sorted(
            session.sql("SELECT key FROM ML.WEIGHTS(MODEL m)").arrow()["key"].to_pylist()
        )
        with pytest.raises(StatementError, match="exists"):
            session.sql(f"EXPORT MODEL m TO TABLE {weights}")
        session.sql(f"EXPORT MODEL m TO TABLE {weights} WITH (replace = true)")


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("SELECT * FROM delta.`{}/t` VERSION AS OF 7", "cannot be read as a Delta table"),
        ("SELECT * FROM delta.`{}/t` VERSION AS OF 'x'", "A version of a Delta table is a number, got 'x'"),
        ("SELECT * FROM delta.`{}/t` TIMESTAMP AS OF 'soon'", "TIMESTAMP AS OF takes a time such as"),
        ("SELECT * FROM parquet.`{}/t` VERSION AS OF 1", "has no VERSION AS OF"),
        ("CREATE TABLE delta.`{}/t` AS SELECT 1 AS y", "exists"),
        ("CREATE OR REPLACE TABLE delta.`{}/t` AS SELECT 1 AS y", "has other columns than the query"),
        ("CREATE TABLE delta.`{}/full` AS SELECT 1 AS y", "has files that are no Delta table's"),
        ("CREATE TABLE delta.`{}/u` USING csv AS SELECT 1 AS y", "This table is Delta: USING delta, or nothing"),
        ("INSERT INTO delta.`{}/t` SELECT 1, 2", "takes x here, the query has 2"),
        ("INSERT INTO delta.`{}/none` SELECT 1", "none does not exist"),
        ("SELECT * FROM delta.`{}/full`", "cannot be read as a Delta table"),
    ],
)
def test_what_is_wrong_is_told_before_anything_is_written(
    engine: DuckDBEngine, tmp_path: Path, statement: str, message: str
) -> None:
    engine.execute(f"CREATE TABLE delta.`{tmp_path}/t` AS SELECT 1 AS x")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").write_text("mine")
    with pytest.raises((StatementError, NotAvailableError), match=message) as caught:
        engine.execute(statement.format(tmp_path))
    assert caught.value.position is not None
    assert deltalake.DeltaTable(tmp_path / "t").version() == 0
    assert sorted(path.name for path in tmp_path.iterdir() if path.name != "warehouse") == ["full", "t"]
