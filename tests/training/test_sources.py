"""A version keeps what it read, and who chose each of its options."""

from __future__ import annotations

from pathlib import Path

import xpsql
from tests.cases import costly_after_first, lengthy
from tests.training.log import session
from xpsql.platform.progress import SilentReporter
from xpsql.warehouse.entries import SourceEntry

__all__ = ["session"]

ROWS = "SELECT CAST(id % 2 AS INT) AS label, CAST(id % 7 AS STRING) AS x, id AS n FROM range(200)"


@costly_after_first
def test_a_version_names_the_tables_and_files_that_its_query_reads(session: xpsql.Session, tmp_path: Path) -> None:
    session.sql(f"CREATE TABLE log AS {ROWS}")
    session.sql("CREATE TABLE names AS SELECT DISTINCT x, concat('n', x) AS name FROM log")
    session.sql("CREATE VIEW named AS SELECT log.label, names.name FROM log JOIN names ON log.x = names.x")
    session.sql("TRAIN MODEL joined USING xftrl AS SELECT * FROM named")
    found = {one.name.rpartition(".")[2]: one for one in session.models.version("joined").manifest.sources}
    assert found.keys() >= ({"named"} if session.engine.tasks is not None else {"log", "names"})
    assert all(one.files >= 1 and one.bytes > 0 and len(one.digest) == 32 for one in found.values())

    session.sql("TRAIN MODEL plain USING xftrl IGNORE (n) AS SELECT * FROM log")
    (before,) = session.models.version("plain").manifest.sources
    session.sql(f"INSERT INTO log {ROWS}")
    session.sql("TRAIN OR REPLACE MODEL plain USING xftrl IGNORE (n) AS SELECT * FROM log")
    (after,) = session.models.version("plain").manifest.sources
    assert (before.name, after.name, before.kind, after.kind) == ("log", "log", "table", "table")
    assert before.digest != after.digest
    assert after.files > before.files
    described = {row["property"]: row["value"] for row in session.sql("DESCRIBE MODEL plain").arrow().to_pylist()}
    assert f"{after.files} files, {after.bytes:,} bytes" in described["source log"]


def test_a_table_of_the_warehouse_has_its_version_and_a_path_its_files(tmp_path: Path) -> None:
    with xpsql.connect(tmp_path / "w", "duckdb", SilentReporter()) as session:
        session.sql(f"CREATE TABLE log AS {ROWS}")
        session.sql(f"INSERT INTO log {ROWS}")
        session.sql("TRAIN MODEL m USING xftrl IGNORE (n) AS SELECT * FROM log")
        (table,) = session.models.version("m").manifest.sources
        assert (table.kind, table.snapshot, table.files) == ("table", "2", 2)
        folder = tmp_path / "w" / "tables" / "log"
        query = f"SELECT * FROM parquet.`{folder}`"
        session.sql(f"TRAIN MODEL f USING xftrl IGNORE (n) VALIDATE ON (SELECT * FROM log) AS {query}")
        files, validated = session.models.version("f").manifest.sources
        assert (files.kind, files.name, files.files) == ("files", f"parquet.`{folder}`", 2)
        assert validated == table


def test_a_stream_is_kept_by_position(tmp_path: Path) -> None:
    with xpsql.connect(tmp_path / "w", "duckdb", SilentReporter()) as session:
        session.sql(f"CREATE TABLE log AS {ROWS}")
        session.sql("TRAIN MODEL m USING xftrl IGNORE (n) WITH (until = 'available') AS SELECT * FROM STREAM log")
        (source,) = session.models.version("m").manifest.sources
        position = session.models.version("m").position
        assert source == SourceEntry("table", "log", position={"from": {}, "to": next(iter(position.values()))})


@lengthy
def test_every_option_says_whether_the_user_a_default_or_a_rule_chose_it(tmp_path: Path) -> None:
    with xpsql.connect(tmp_path / "w", "duckdb", SilentReporter()) as session:
        session.sql(f"CREATE TABLE log AS {ROWS}")
        session.sql("TRAIN MODEL m USING xnn (dim = 8) WITH (seed = 7, workers = 1) AS SELECT label, x FROM log")
        for continued in (False, True):
            if continued:
                session.sql("CONTINUE MODEL m WITH (shards = 1) AS SELECT label, x FROM log")
            asked = "SELECT option, value, chosen_by FROM ML.OPTIONS(MODEL m) WHERE clause IN ('USING', 'WITH')"
            found = {row["option"]: (row["value"], row["chosen_by"]) for row in session.sql(asked).arrow().to_pylist()}
            assert found["dim"] == ("8", "user")
            assert found["seed"] == ("7", "user")  # though it is the default, too
            assert found["slack"] == ("4", "default")
            assert found["batch_size"] == ("64", "rule")
            assert found["shards"] == ("1", "user" if continued else "rule")
        manifest = session.models.version("m").manifest
        assert {one.by for one in manifest.chosen} == {"user", "default", "rule"}
