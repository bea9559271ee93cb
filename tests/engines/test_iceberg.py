"""Tables of Iceberg: the rows that pyiceberg reads, at each snapshot, and what statements write."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import xpsql
from tests.cases import lengthy
from tests.engines.lake import TYPES, catalog, some
from tests.engines.rows import rows
from xpsql.platform.engines.duckdb.engine import DuckDBEngine
from xpsql.platform.engines.parquet_scan import ParquetScan
from xpsql.platform.errors import NotAvailableError, StatementError
from xpsql.platform.progress import SilentReporter


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    return catalog(tmp_path / "catalog", monkeypatch)


@pytest.fixture
def log(lake: Any) -> Any:
    table = lake.create_table("sales.log", schema=TYPES)
    table.append(some(1, 2, 3))
    table.append(some(4, 5))
    return table


def same(engine: DuckDBEngine, table: Any, relation: str = "lake.sales.log") -> None:
    """Require the rows that pyiceberg reads."""
    found = engine.execute(f"SELECT * FROM {relation}")
    assert found is not None
    expected = table.scan().to_arrow()
    assert found.column_names == expected.column_names
    key = str
    assert sorted(found.to_pylist(), key=key) == sorted(expected.cast(found.schema).to_pylist(), key=key)


@lengthy
def test_files_are_read_in_place_and_in_the_order_in_which_they_were_written(engine: DuckDBEngine, log: Any) -> None:
    same(engine, log)
    assert rows(engine, "SELECT x FROM lake.sales.log") == [(1,), (2,), (3,), (4,), (5,)]
    scan = engine.scan("SELECT user, x FROM lake.sales.log WHERE x > 1")
    assert isinstance(scan, ParquetScan)
    assert len(scan.files) == 2


def test_columns_that_were_renamed_dropped_and_added_are_read_as_the_table_has_them_now(engine: DuckDBEngine, log: Any) -> None:
    from pyiceberg.types import LongType

    with log.update_schema() as change:
        change.rename_column("user", "who")
        change.delete_column("at")
        change.add_column("clicks", LongType())
    same(engine, log)
    log.append(pa.table({"who": ["new"], "x": [9], "clicks": [7]}))
    same(engine, log)
    assert rows(engine, "SELECT who FROM lake.sales.log WHERE clicks = 7") == [("new",)]
    assert not isinstance(engine.scan("SELECT who FROM lake.sales.log"), ParquetScan)
    first = log.snapshots()[0].snapshot_id
    assert rows(engine, f"SELECT user, x FROM lake.sales.log VERSION AS OF {first} WHERE x < 3") == [("u1", 1), ("u2", 2)]


def test_rows_that_files_of_deletes_name_are_gone(engine: DuckDBEngine, log: Any, tmp_path: Path) -> None:
    delete_by_position(log, [0, 2])
    same(engine, log)
    assert rows(engine, "SELECT x FROM lake.sales.log ORDER BY x") == [(2,), (4,), (5,)]


def delete_by_position(table: Any, positions: list[int]) -> None:
    """Commit a file of positional deletes of the first file, as Spark's merge-on-read does: pyiceberg only reads them."""
    from pyiceberg.manifest import (
        DataFile,
        DataFileContent,
        FileFormat,
        ManifestContent,
        ManifestEntry,
        ManifestEntryStatus,
        ManifestWriterV2,
        write_manifest_list,
    )
    from pyiceberg.table.snapshots import Operation, Snapshot, Summary
    from pyiceberg.table.update import AddSnapshotUpdate, AssertRefSnapshotId, SetSnapshotRefUpdate
    from pyiceberg.typedef import Record

    class DeleteManifest(ManifestWriterV2):
        def content(self) -> ManifestContent:
            return ManifestContent.DELETES

        @property
        def _meta(self) -> dict[str, str]:
            return {**super()._meta, "content": "deletes"}

    data = min(task.file.file_path for task in table.scan("x < 4").plan_files())
    place = f"{table.location()}/data/deletes.parquet"
    ids = [
        pa.field("file_path", pa.string(), metadata={"PARQUET:field_id": "2147483546"}, nullable=False),
        pa.field("pos", pa.int64(), metadata={"PARQUET:field_id": "2147483545"}, nullable=False),
    ]
    local = Path(place.removeprefix("file://"))
    pq.write_table(pa.table([[data] * len(positions), positions], schema=pa.schema(ids)), local)
    file = DataFile.from_args(
        content=DataFileContent.POSITION_DELETES,
        file_path=place,
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=len(positions),
        file_size_in_bytes=local.stat().st_size,
        sort_order_id=None,
        spec_id=0,
    )
    current = table.current_snapshot()
    number, sequence = current.snapshot_id + 1, current.sequence_number + 1
    manifest = f"{table.location()}/metadata/deletes-m0.avro"
    with DeleteManifest(table.spec(), table.schema(), table.io.new_output(manifest), number, "null") as writer:
        writer.add_entry(
            ManifestEntry.from_args(
                status=ManifestEntryStatus.ADDED,
                snapshot_id=number,
                sequence_number=None,
                file_sequence_number=None,
                data_file=file,
            )
        )
    added = writer.to_manifest_file()
    listed = f"{table.location()}/metadata/snap-{number}.avro"
    with write_manifest_list(2, table.io.new_output(listed), number, current.snapshot_id, sequence, "null") as lists:
        lists.add_manifests([added, *current.manifests(table.io)])
    snapshot = Snapshot(
        snapshot_id=number,
        parent_snapshot_id=current.snapshot_id,
        sequence_number=sequence,
        manifest_list=listed,
        summary=Summary(Operation.OVERWRITE),
        schema_id=table.schema().schema_id,
        timestamp_ms=current.timestamp_ms + 1,
    )
    table.catalog.commit_table(
        table,
        (AssertRefSnapshotId(ref="main", snapshot_id=current.snapshot_id),),
        (AddSnapshotUpdate(snapshot=snapshot), SetSnapshotRefUpdate(ref_name="main", type="branch", snapshot_id=number)),
    )
    table.refresh()


def test_a_snapshot_is_named_by_number_branch_tag_or_time(engine: DuckDBEngine, log: Any) -> None:
    first, second = log.snapshots()
    log.manage_snapshots().create_tag(first.snapshot_id, "audit").commit()
    later = (second.timestamp_ms + 1000) / 1000
    from datetime import UTC, datetime

    for as_of, expected in (
        (f"VERSION AS OF {first.snapshot_id}", 3),
        ("VERSION AS OF 'audit'", 3),
        (f"VERSION AS OF {second.snapshot_id}", 5),
        (f"TIMESTAMP AS OF '{datetime.fromtimestamp(later, UTC):%Y-%m-%d %H:%M:%S}'", 5),
    ):
        assert rows(engine, f"SELECT count(*) FROM lake.sales.log {as_of}") == [(expected,)]
        scan = engine.scan(f"SELECT x FROM lake.sales.log {as_of}")
        assert isinstance(scan, ParquetScan)
        assert len(scan.files) == (1 if expected == 3 else 2)
    both = f"SELECT count(*) FROM lake.sales.log VERSION AS OF {first.snapshot_id} a JOIN lake.sales.log b ON a.x = b.x"
    assert rows(engine, both) == [(3,)]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (
            "SELECT * FROM lake.sales.log VERSION AS OF 5",
            r"lake.sales.log has no snapshot VERSION AS OF 5. It has 2, from \d+",
        ),
        ("SELECT * FROM lake.sales.log TIMESTAMP AS OF '2001-01-01'", "has no snapshot TIMESTAMP AS OF 2001-01-01"),
        ("SELECT * FROM lake.sales.log TIMESTAMP AS OF 'soon'", "TIMESTAMP AS OF takes a time such as"),
        ("SELECT * FROM lake.sales.log VERSION AS OF 1 + 1", "VERSION AS OF takes a number or a text|is not Spark SQL"),
        ("SELECT * FROM lake.sales.logs", "The catalog lake has no table sales.logs"),
        ("SELECT * FROM lake.sale.log", "The catalog lake has no table sale.log"),
        ("SELECT * FROM lak.sales.log", "There is no catalog lak. Describe it in .pyiceberg.yaml"),
        ("SELECT y FROM lake.sales.log", "There is no column y"),
        ("INSERT INTO lake.sales.log SELECT 'u'", "takes user, x, at here, the query has 1"),
        ("CREATE TABLE lake.sales.log AS SELECT 1 AS a", "The table log exists"),
        ("CREATE TABLE lake.nowhere.t AS SELECT 1 AS a", "The catalog has no namespace nowhere"),
        ("CREATE TABLE lake.sales.u USING delta AS SELECT 1 AS a", "This table is Iceberg"),
        ("DELETE FROM lake.sales.log WHERE x = 1", "There is no database lake"),
    ],
)
def test_what_a_catalog_does_not_have_is_told_with_its_place(engine: DuckDBEngine, log: Any, query: str, message: str) -> None:
    with pytest.raises((StatementError, NotAvailableError), match=message) as caught:
        engine.execute(query)
    assert caught.value.position is not None
    assert log.refresh().scan().to_arrow().num_rows == 5


def test_without_the_package_an_error_names_the_extra(engine: DuckDBEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyiceberg.catalog", None)
    with pytest.raises(NotAvailableError, match=r"pip install 'xpsql\[iceberg\]'"):
        engine.execute("SELECT * FROM lake.sales.log")


@lengthy
def test_statements_make_and_fill_tables(engine: DuckDBEngine, lake: Any) -> None:
    engine.execute(
        "CREATE TABLE lake.sales.t USING iceberg PARTITIONED BY (day) AS SELECT CAST(id AS SMALLINT) AS s, id AS x, "
        "CAST(id AS DECIMAL(5, 2)) AS d, array(id) AS a, TIMESTAMP'2026-11-10 01:00:00' AS at, "
        "date_add(DATE'2026-11-10', CAST(id % 2 AS INT)) AS day FROM range(4)"
    )
    table = lake.load_table("sales.t")
    assert [str(field.transform) for field in table.spec().fields] == ["identity"]
    same(engine, table, "lake.sales.t")
    engine.execute("INSERT INTO lake.sales.t (x, day) VALUES (9, DATE'2026-11-12')")
    engine.execute("INSERT OVERWRITE lake.sales.t PARTITION (day = '2026-11-10') (x) VALUES (100)")
    assert sorted(rows(engine, "SELECT x FROM lake.sales.t")) == [(1,), (3,), (9,), (100,)]
    same(engine, table.refresh(), "lake.sales.t")
    engine.execute("INSERT OVERWRITE lake.sales.t SELECT * FROM lake.sales.t WHERE x = 9")
    assert rows(engine, "SELECT x FROM lake.sales.t") == [(9,)]
    engine.execute("CREATE TABLE IF NOT EXISTS lake.sales.t AS SELECT 1 AS a")
    engine.execute("CREATE TABLE lake.sales.none (a INT, b STRING)")
    assert rows(engine, "SELECT * FROM lake.sales.none") == []


def test_who_loses_a_race_against_another_writer_tries_again(
    engine: DuckDBEngine, log: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyiceberg.catalog.sql import SqlCatalog

    commit, races = SqlCatalog.commit_table, [2]

    def raced(self: Any, *arguments: Any) -> Any:
        if races[0]:
            races[0] -= 1
            other = catalog_again()
            commit(other, *append_of(other))
        return commit(self, *arguments)

    def catalog_again() -> Any:
        from pyiceberg.catalog import load_catalog
        from pyiceberg.utils.config import Config

        return load_catalog("lake", **(Config().get_catalog_config("lake") or {}))

    def append_of(other: Any) -> Any:
        change = other.load_table("sales.log").transaction()
        change.append(some(50))
        return change._table, (*change._requirements,), change._updates

    monkeypatch.setattr(SqlCatalog, "commit_table", raced)
    engine.execute("INSERT INTO lake.sales.log SELECT 'mine', 60, TIMESTAMP'2026-11-10 01:00:00'")
    assert sorted(x for (x,) in rows(engine, "SELECT x FROM lake.sales.log")) == [1, 2, 3, 4, 5, 50, 50, 60]


@lengthy
def test_a_version_keeps_the_snapshot_that_it_learned_and_weights_are_exported(log: Any, lake: Any, tmp_path: Path) -> None:
    with xpsql.connect(tmp_path / "warehouse", reporter=SilentReporter()) as session:
        session.sql("TRAIN MODEL m USING xftrl LABEL label AS SELECT x % 2 AS label, user FROM lake.sales.log")
        (source,) = session.models.version("m", 1).manifest.sources
        assert (source.kind, source.name, source.files) == ("iceberg", "lake.sales.log", 2)
        assert source.snapshot == str(log.current_snapshot().snapshot_id)
        session.sql("EXPORT MODEL m TO TABLE lake.sales.weights")
        exported = lake.load_table("sales.weights").scan().to_arrow()
        weights = session.sql("SELECT * FROM ML.WEIGHTS(MODEL m)").arrow()
        assert exported.num_rows == len(weights)
        assert sorted(exported["key"].to_pylist()) == sorted(weights["key"].to_pylist())
        session.sql("EXPORT MODEL m TO TABLE lake.sales.weights WITH (replace = true)")
        log.append(some(7))
        report = session.sql("SHOW PROVENANCE OF MODEL m").arrow().to_pylist()
        assert any(source.snapshot in str(row) for row in report)
