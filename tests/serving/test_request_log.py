"""The log of scored requests."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import xpsql
from tests.serving.conftest import COLUMNS, ROW, Client, failing
from xpsql.platform.serving.http import Service
from xpsql.platform.serving.refusal import RequestLimits
from xpsql.platform.serving.request_log import WAITING, RequestLog
from xpsql.platform.serving.served import Served


@pytest.fixture
def folder(served: Served, tmp_path: Path) -> Path:
    """A log of three requests, of a context with a category, of instances, and of another model."""
    log = RequestLog(tmp_path / "served", 1.0, print)
    log.start()
    client = Client(Service(served, RequestLimits(), None, log, failing))
    context = {name: value for name, value in ROW.items() if name != "ad"}
    client.predict({"context": context, "candidates": [{"ad": 1}, {"ad": "2"}]})
    client.predict({"instances": [{**ROW, "ad": 3.0, "tags": None, "price": None}]})
    client.predict({"instances": [{"user": "u1", "ad": 3, "tags": [], "price": 0.5}]}, "deep")
    log.stop()
    assert log.left_out == 0
    return tmp_path / "served"


def test_a_logged_request_has_typed_columns_keys_prediction_and_latency(session: xpsql.Session, folder: Path) -> None:
    (file,) = (folder / "served_model=ctr" / "served_version=1").glob("*.parquet")
    table = pq.ParquetFile(file).read()
    assert table.column_names[:7] == list(COLUMNS)
    assert table.schema.field("ad").type == pa.int64()
    rows = sorted(table.to_pylist(), key=lambda row: row["ad"])
    assert [row["ad"] for row in rows] == [1, 2, 3]
    assert all(0 < row["served_latency_seconds"] < 60 and 0 < row["served_prediction"] < 1 for row in rows)
    keys = dict(rows[2]["served_keys"])
    assert (keys["tags"], keys["price"]) == ([], [])
    (wanted,) = session.sql("SELECT feature_key('ad', 3) AS ad, feature_key('user', 'u1') AS user").arrow().to_pylist()
    assert (keys["ad"], keys["user"]) == ([wanted["ad"]], [wanted["user"]])


def test_the_log_is_a_table_of_sql(session: xpsql.Session, folder: Path) -> None:
    columns = "size(served_keys['tags']) AS tags, served_version, count(*)"
    found = session.sql(f"SELECT {columns} FROM parquet.`{folder}/served_model=ctr` GROUP BY 1, 2 ORDER BY 1").arrow()
    assert [tuple(row.values()) for row in found.to_pylist()] == [(0, 1, 1), (2, 1, 2)]


def test_a_fraction_of_zero_logs_nothing(served: Served, tmp_path: Path) -> None:
    log = RequestLog(tmp_path / "served", 0.0, print)
    log.start()
    Client(Service(served, RequestLimits(), None, log, failing)).predict({"instances": [ROW]})
    log.stop()
    assert list((tmp_path / "served").iterdir()) == []


def test_requests_that_cannot_be_written_are_reported_and_not_waited_for(served: Served, tmp_path: Path) -> None:
    reported: list[str] = []
    log = RequestLog(tmp_path / "served", 1.0, reported.append)
    log.start()
    (tmp_path / "served" / "served_model=ctr").write_text("a file where the folder goes")
    Client(Service(served, RequestLimits(), None, log, failing)).predict({"instances": [ROW]})
    log.stop()
    assert len(reported) == 1
    assert reported[0].startswith("Requests for ctr were not logged in")


def test_a_request_that_is_no_table_is_reported_and_the_next_ones_are_logged(served: Served, tmp_path: Path) -> None:
    reported: list[str] = []
    log = RequestLog(tmp_path / "served", 1.0, reported.append)
    log.start()

    def broken() -> pa.Table:
        raise OverflowError("an integer of a category")

    log.offer(served.find("ctr", None), broken, {}, 0.1, None)
    client = Client(Service(served, RequestLimits(), None, log, failing))
    for _ in range(2):
        client.predict({"instances": [ROW]})
    log.stop()
    assert reported == ["A request was not logged: OverflowError: an integer of a category"]
    assert pq.ParquetDataset(tmp_path / "served").read(["ad"]).num_rows == 2


def test_requests_that_come_faster_than_the_log_takes_them_are_counted_aloud(served: Served, tmp_path: Path) -> None:
    reported: list[str] = []
    log = RequestLog(tmp_path / "served", 1.0, reported.append)
    client = Client(Service(served, RequestLimits(), None, log, failing))
    for _ in range(WAITING + 3):  # nobody takes them yet
        client.predict({"instances": [ROW]})
    log.start()
    log.stop()
    assert reported == ["3 requests were not logged: they came faster than the log takes them."]
    assert pq.ParquetDataset(tmp_path / "served").read(["ad"]).num_rows == WAITING
