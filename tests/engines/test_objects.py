"""Object stores and Delta tables: an S3 server on this machine, and tables that deltalake writes."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path

import deltalake
import localbucket
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import xpsql
from tests.cases import lengthy
from tests.engines.rows import rows
from xpsql.platform.engines.duckdb.engine import DuckDBEngine
from xpsql.platform.engines.parquet_scan import ParquetScan
from xpsql.platform.errors import DataError, ModelError, StatementError
from xpsql.platform.objects import located

SECONDS = 30
LOG = "SELECT CAST(id % 3 = 0 AS INT) AS label, concat('u', id % 50) AS user, concat('a', id % 7) AS ad FROM range(2000)"


@pytest.fixture(scope="module")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of the bucket `mine` of a server of S3."""
    folder = tmp_path_factory.mktemp("s3")
    (folder / "mine").mkdir()
    localbucket.S3Handler.data_root = folder
    server = ThreadingHTTPServer(("127.0.0.1", 0), localbucket.S3Handler)  # listens from here on
    serving = threading.Thread(target=server.serve_forever)
    serving.start()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.server_port}")
        for name, value in (("ACCESS_KEY_ID", "x"), ("SECRET_ACCESS_KEY", "y"), ("REGION", "us-east-1")):
            patch.setenv(f"AWS_{name}", value)
        yield folder / "mine"
    server.shutdown()
    server.server_close()
    serving.join(SECONDS)


def test_files_of_a_store_are_read_as_local_ones(engine: DuckDBEngine, bucket: Path) -> None:
    folder = bucket / "read"
    for day in (1, 2):
        (folder / "log" / f"day={day}").mkdir(parents=True)
        pq.write_table(pa.table({"a": [day, 7]}), folder / "log" / f"day={day}" / "part.parquet")
    (folder / "x.csv").write_text("a,b\n1,x\n2,\n")
    (folder / "x.json").write_text('{"a": 1}\n{"a": 2}\n')
    for scheme in ("s3", "s3a"):
        assert rows(engine, f"SELECT * FROM parquet.`{scheme}://mine/read/log`") == [(1, 1), (7, 1), (2, 2), (7, 2)]
    view = "CREATE TEMPORARY VIEW v USING csv OPTIONS (path 's3://mine/read/x.csv', header true, inferSchema true)"
    engine.execute(view)
    assert rows(engine, "SELECT * FROM v") == [(1, "x"), (2, None)]
    assert rows(engine, "SELECT sum(a) FROM json.`s3://mine/read/x.json`") == [(3,)]
    scan = engine.scan("SELECT a FROM parquet.`s3://mine/read/log/day=1`")
    assert isinstance(scan, ParquetScan)
    (split,) = scan.splits()
    assert [table.column("a").to_pylist() for table in scan.read(split, ["a"], 10)] == [[1, 7]]
    os.utime(folder / "log" / "day=1" / "part.parquet", (1, 1))
    with pytest.raises(DataError, match="changed since the training began"):
        list(scan.read(split, ["a"], 10))
    with pytest.raises(StatementError, match="nowhere has no files to read"):
        engine.execute("SELECT * FROM parquet.`s3://mine/nowhere`")


@lengthy
def test_a_model_learns_from_a_store_and_is_exported_to_it(bucket: Path, tmp_path: Path) -> None:
    with xpsql.connect(tmp_path / "w") as session:
        session.sql(f"INSERT OVERWRITE DIRECTORY 's3://mine/train' {LOG}")
        session.sql(f"INSERT OVERWRITE DIRECTORY 's3://mine/train' {LOG}")
        assert [path.name for path in (bucket / "train").iterdir()] == ["part-00000.parquet"]
        session.sql("TRAIN MODEL far USING xftrl AS SELECT * FROM parquet.`s3://mine/train`")
        session.sql(f"TRAIN MODEL near USING xftrl AS {LOG}")
        far, near = (session.sql(f"SELECT key, weight FROM ML.WEIGHTS(MODEL {m})").arrow() for m in ("far", "near"))
        assert far.equals(near)
        reported = session.sql("EXPORT MODEL far TO 's3://mine/out' FORMAT csv").arrow().to_pylist()[0]
        assert (reported["rows"], reported["target"]) == (len(far), "s3://mine/out")
        with pytest.raises(ModelError, match="has an export as csv"):
            session.sql("EXPORT MODEL far TO 's3://mine/out' FORMAT parquet")
        session.sql("EXPORT MODEL far TO 's3://mine/out' FORMAT parquet WITH (replace = true)")
        assert sorted(path.name for path in (bucket / "out").iterdir()) == ["_manifest.json", "part-00000.parquet"]
        assert session.sql("SELECT count(*) AS n FROM parquet.`s3://mine/out`").arrow().to_pylist() == [{"n": len(far)}]
        (bucket / "notes").mkdir()
        (bucket / "notes" / "mine.txt").write_text("kept")
        with pytest.raises(ModelError, match="s3://mine/notes exists and is no export"):
            session.sql("EXPORT MODEL far TO 's3://mine/notes' FORMAT csv")


@pytest.fixture
def google(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The bucket `mine` of a server of Google's store."""
    pytest.importorskip("gcp_storage_emulator")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    options = [f"--port={port}", "--host=127.0.0.1", "--in-memory", "--default-bucket=mine"]
    command = [sys.executable, "-u", "-m", "gcp_storage_emulator", "start", *options]
    monkeypatch.setenv("CLOUD_STORAGE_EMULATOR_ENDPOINT", f"http://127.0.0.1:{port}")
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as server:
        assert server.stdout is not None
        assert any("services started" in line for line in server.stdout), "it ends before it serves"
        yield "gs://anonymous@mine"
        server.kill()


def test_a_store_of_google_is_read_and_written_with_the_account_of_its_uri(google: str, tmp_path: Path) -> None:
    with xpsql.connect(tmp_path / "w") as session:
        session.sql(f"INSERT OVERWRITE DIRECTORY '{google}/log/day=1' USING parquet {LOG}")
        session.sql(f"TRAIN MODEL far USING xftrl AS SELECT label, user, ad FROM parquet.`{google}/log`")
        (reported,) = session.sql(f"EXPORT MODEL far TO '{google}/out' FORMAT parquet").arrow().to_pylist()
        assert session.sql(f"SELECT count(*), max(day) FROM parquet.`{google}/log`").fetchall() == [(2000, 1)]
        assert session.sql(f"SELECT count(*) FROM parquet.`{google}/out`").fetchall() == [(reported["rows"],)]


def test_a_store_that_does_not_answer_is_an_error_that_names_it(engine: DuckDBEngine, bucket: Path) -> None:
    assert located("s3://mine/x")[1] == "mine/x"
    with pytest.raises(StatementError, match=r"s3://absent/x (cannot be read|has no files)"):
        engine.execute("SELECT * FROM parquet.`s3://absent/x`")
    with pytest.raises(StatementError, match="A warehouse is a local path"):
        xpsql.connect("s3://mine/w")


def test_delta_tables_are_read_as_their_log_says(engine: DuckDBEngine, tmp_path: Path) -> None:
    plain, parts = tmp_path / "plain", tmp_path / "parts"
    for values in ([1, 2], [3]):
        deltalake.write_deltalake(plain, pa.table({"a": values}), mode="append")
        deltalake.write_deltalake(parts, pa.table({"a": values, "p": ["x"] * len(values)}), mode="append", partition_by=["p"])
    assert rows(engine, f"SELECT a FROM delta.`{plain}`") == [(1,), (2,), (3,)]
    assert isinstance(engine.scan(f"SELECT a FROM delta.`{plain}`"), ParquetScan)
    assert sorted(rows(engine, f"SELECT * FROM delta.`{parts}` WHERE p = 'x'")) == [(1, "x"), (2, "x"), (3, "x")]
    deltalake.DeltaTable(plain).delete("a = 2")
    engine.execute(f"CREATE TEMPORARY VIEW now USING delta OPTIONS (path '{plain}')")
    engine.execute(f"CREATE TEMPORARY VIEW past USING delta OPTIONS (path '{plain}', versionAsOf '0')")
    assert [sorted(rows(engine, f"SELECT * FROM {view}")) for view in ("now", "past")] == [[(1,), (3,)], [(1,), (2,)]]
    for statement, message in (
        (f"SELECT * FROM delta.`{tmp_path}/nowhere`", "nowhere does not exist"),
        (
            f"CREATE TEMPORARY VIEW v USING delta OPTIONS (path '{plain}', versionAsOf 'x')",
            "A version of a Delta table is a num",
        ),
        (f"CREATE TEMPORARY VIEW v USING delta OPTIONS (path '{plain}', versionAsOf '9')", "cannot be read as a Delta table"),
        (f"INSERT OVERWRITE DIRECTORY '{tmp_path}/out' USING delta SELECT 1 AS a", "Files are written as parquet, csv, json"),
    ):
        with pytest.raises(StatementError, match=message):
            engine.execute(statement)
