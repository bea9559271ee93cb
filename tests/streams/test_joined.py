"""Streams of files that are joined with what belongs to them, once it has had time to come."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import xpsql
from tests.cases import costly, lengthy, slow_elsewhere
from tests.forkserver import CONTEXT
from tests.streams.landing import answer, learned
from tests.streams.test_kill import killed
from xpsql.platform.errors import StatementError
from xpsql.platform.progress import SilentReporter

MINUTE = 60
DELAY = "until = 'available', delay = '15 minutes', workers = 1, batch_size = 64"
JOINED = (
    "SELECT i.user, i.ts, CAST(c.id IS NOT NULL AS INT) AS click FROM STREAM read_files('{0}/impressions') i LEFT JOIN "
    "parquet.`{0}/clicks` c ON c.id = i.id AND c.ts >= i.ts AND c.ts < i.ts + INTERVAL 15 MINUTES"
)


def arrives(folder: Path, name: str, table: pa.Table, minutes: float) -> None:
    """Let a file come that was written some minutes ago."""
    folder.mkdir(exist_ok=True)
    pq.write_table(table, folder / f"{name}.parquet")
    then = time.time() - MINUTE * minutes
    os.utime(folder / f"{name}.parquet", (then, then))


def impressions(first: int, rows: int) -> pa.Table:
    ids = range(first, first + rows)
    ts = pa.array([1_767_225_600_000_000 + 1_000_000 * i for i in ids], pa.timestamp("us", "UTC"))
    return pa.table({"id": pa.array(ids, pa.int64()), "user": [f"u{i % 20}" for i in ids], "ts": ts})


def clicks(first: int, rows: int, minutes: float) -> pa.Table:
    """Return clicks on every fourth impression, so many minutes after it."""
    of = impressions(first, rows).take(list(range(0, rows, 4)))
    return pa.table(
        {
            "id": of["id"],
            "ts": pa.array([ts + 6e7 * minutes for ts in of["ts"].cast(pa.int64()).to_pylist()], pa.int64()).cast(
                of["ts"].type
            ),
        }
    )


def counted(session: xpsql.Session) -> tuple[int, int]:
    """Return what was shown, and what of it was clicked."""
    text = "SELECT shows, clicks FROM ML.WEIGHTS(MODEL m) WHERE slot = '(intercept)'"
    (row,) = session.sql(text).arrow().to_pylist()
    return row["shows"], row["clicks"]


@lengthy
@slow_elsewhere
@pytest.mark.parametrize("engine", ["duckdb", "spark"])
def test_files_are_joined_once_they_have_waited(engine: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    arrives(tmp_path / "impressions", "a", impressions(0, 400), minutes=30)
    arrives(tmp_path / "impressions", "b", impressions(400, 200), minutes=5)
    arrives(tmp_path / "clicks", "a", clicks(0, 400, 10), minutes=20)
    on = request.getfixturevalue("spark") if engine == "spark" else engine
    query = JOINED.format(tmp_path)
    with xpsql.connect(tmp_path / "warehouse", on, SilentReporter()) as session:
        first = answer(session, f"TRAIN MODEL m USING xftrl LABEL click TIME ts WITH ({DELAY}) AS {query}")
        assert learned(first) == (1, "ready", 400)
        assert counted(session) == (400, 100)
        go_on = f"CONTINUE MODEL m WITH ({DELAY}) AS {query}"
        assert learned(answer(session, go_on)) == (1, "nothing new", 0)
        arrives(tmp_path / "clicks", "b", clicks(400, 200, 20), minutes=1)  # later than the query asks for
        arrives(tmp_path / "impressions", "b", impressions(400, 200), minutes=16)
        assert learned(answer(session, go_on)) == (2, "ready", 200)
        assert counted(session) == (600, 100)
        assert learned(answer(session, go_on)) == (2, "nothing new", 0)


@costly
def test_a_resumed_job_learns_the_rows_that_were_joined_first(tmp_path: Path) -> None:
    for number in range(2):
        arrives(tmp_path / "impressions", str(number), impressions(400 * number, 400), minutes=30 - number)
    arrives(tmp_path / "clicks", "a", clicks(0, 400, 10), minutes=20)
    warehouse = tmp_path / "warehouse"
    query = JOINED.format(tmp_path)
    statement = f"TRAIN MODEL m USING xftrl LABEL click TIME ts WITH ({DELAY}, checkpoint_seconds = 0.01) AS {query}"
    process = CONTEXT.Process(target=killed, args=(warehouse, statement, "before the commit"))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    arrives(tmp_path / "clicks", "b", clicks(400, 400, 10), minutes=1)
    with xpsql.connect(warehouse, "duckdb", SilentReporter()) as session:
        assert learned(answer(session, "RESUME MODEL m")) == (1, "ready", 800)
        assert counted(session) == (800, 100)
        assert learned(answer(session, f"CONTINUE MODEL m WITH ({DELAY}) AS {query}")) == (1, "nothing new", 0)


@pytest.mark.parametrize(
    ("settings", "relation", "message"),
    [
        (DELAY, "read_kafka(bootstrapServers => 'x:1', subscribe => 't') GROUP BY 1", "INSERT its messages into a table"),
        (DELAY, "read_files('{0}') GROUP BY 1", "the query has GROUP BY"),
        ("until = 'available'", "read_files('{0}') i JOIN u ON i.user = u.user", "delay = '15 minutes'"),
        (DELAY.replace("15", "some"), "read_files('{0}')", "positive number and a unit"),
    ],
)
def test_joins_are_refused_where_they_could_not_be_replayed(tmp_path: Path, settings: str, relation: str, message: str) -> None:
    arrives(tmp_path / "impressions", "a", impressions(0, 10), minutes=30)
    with xpsql.connect(tmp_path / "warehouse", "duckdb", SilentReporter()) as session:
        source = relation.format(tmp_path / "impressions")
        with pytest.raises(StatementError, match=message) as refused:
            session.sql(f"TRAIN MODEL m USING xftrl LABEL click WITH ({settings}) AS SELECT id AS click FROM STREAM {source}")
    assert refused.value.position is not None
