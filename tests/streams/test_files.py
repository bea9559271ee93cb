"""Models that learn from a folder in which files arrive: each file once, whatever the job does."""

from __future__ import annotations

import os
import time
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import xpsql
from tests.cases import costly, lengthy
from tests.streams.landing import AVAILABLE, COLUMNS, answer, arrives, go_on, learned, rows_of, train
from tests.training.log import log, write
from xpsql.platform.engines.parquet_scan import as_row_group
from xpsql.platform.engines.unknown_names import absent
from xpsql.platform.errors import DataError, StatementError
from xpsql.platform.input.streams import folder as folders
from xpsql.platform.input.streams.base import VIEW
from xpsql.platform.input.streams.feed import Feed
from xpsql.platform.input.streams.folder import FilesOptions, FolderStream
from xpsql.platform.input.streams.segment_scan import SegmentScan
from xpsql.platform.progress import SilentReporter

DAY = 24 * 3600


@pytest.fixture(autouse=True)
def looks_are_near(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "LOOK_SECONDS", 0.0)


@pytest.fixture
def landing(tmp_path: Path) -> Path:
    folder = tmp_path / "landing"
    arrives(folder, "a", 500, seed=1)
    return folder


def stream(folder: Path) -> str:
    return f"read_files('{folder}', format => 'parquet')"


@lengthy
def test_each_file_is_learned_once_and_the_same_job_again_makes_no_version(session: xpsql.Session, landing: Path) -> None:
    assert learned(train(session, stream(landing))) == (1, "ready", 500)
    assert learned(go_on(session, stream(landing))) == (1, "nothing new", 0)
    arrives(landing, "b", 300, seed=2)
    arrives(landing, "c", 100, seed=3)
    assert learned(go_on(session, f"parquet.`{landing}`")) == (2, "ready", 400)
    for _ in range(2):
        assert learned(go_on(session, stream(landing))) == (2, "nothing new", 0)
    assert [version.number for version in session.models.versions("m")] == [1, 2]
    counts = {row["slot"]: row["count"] for row in rows_of(session).to_pylist() if row["slot"] == "(intercept)"}
    assert counts == {"(intercept)": 900}


@costly
@pytest.mark.parametrize("columns", [COLUMNS, "label, ts, user, item + 1 AS item, price * 2 AS price"])
def test_a_stream_learns_bit_for_bit_what_a_table_of_the_same_rows_does(
    session: xpsql.Session, landing: Path, columns: str
) -> None:
    arrives(landing, "b", 700, seed=2)
    train(session, stream(landing), columns)
    settings = "TIME ts WITH (workers = 1, batch_size = 64)"
    session.sql(f"TRAIN MODEL batch USING xftrl {settings} AS SELECT {columns} FROM parquet.`{landing}`")
    assert rows_of(session).equals(rows_of(session, "batch"))
    after = arrives(landing, "c", 400, seed=3)
    go_on(session, stream(landing), columns)
    session.sql(f"CONTINUE MODEL batch AS SELECT {columns} FROM parquet.`{after}`")
    assert rows_of(session).equals(rows_of(session, "batch"))
    found, expected = (session.models.version(model).manifest.metrics for model in ("m", "batch"))
    assert found.keys() == expected.keys()
    for name, value in expected.items():  # sums of parts that end at other batches
        assert found[name] == (None if value is None else pytest.approx(value, rel=1e-12)), name


def test_a_filter_of_the_query_is_evaluated_and_rows_that_it_drops_are_not_looked_at_again(
    session: xpsql.Session, landing: Path
) -> None:
    where = f"{stream(landing)} WHERE item > 5"
    first = train(session, where)["examples"]
    assert first == session.sql(f"SELECT count(*) AS n FROM parquet.`{landing}` WHERE item > 5").arrow()["n"][0].as_py() < 500
    assert learned(go_on(session, where)) == (1, "nothing new", 0)


def test_what_is_not_whole_waits_for_the_next_time(
    session: xpsql.Session, landing: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (landing / "d.parquet").write_bytes((landing / "a.parquet").read_bytes()[:-100])
    for name in (".b.parquet", "_c.parquet"):
        write(log(100, seed=2), landing / name)
    growing = arrives(landing, "e", 50, seed=5)
    waits = SimpleNamespace(time=time.time, sleep=lambda _: arrives(landing, "e", 80, seed=5))
    monkeypatch.setattr(folders, "time", waits)  # of that module alone: threads of Spark's client call time.sleep, too
    assert learned(train(session, stream(landing))) == (1, "ready", 500)
    monkeypatch.undo()
    assert growing.exists()
    write(log(30, seed=4), landing / "d.parquet")
    assert learned(go_on(session, stream(landing))) == (2, "ready", 110)


def test_a_file_that_stays_unreadable_is_an_error_that_names_it(session: xpsql.Session, landing: Path) -> None:
    broken = landing / "broken.parquet"
    broken.write_bytes(b"no Parquet")
    os.utime(broken, (1_700_000_000, 1_700_000_000))
    with pytest.raises(DataError, match=r"broken\.parquet cannot be read as Parquet: .* Write it again under another name"):
        train(session, stream(landing))
    assert not session.models.names()


def test_files_that_changed_after_they_were_learned_are_an_error_with_their_number(
    session: xpsql.Session, landing: Path
) -> None:
    arrives(landing, "b", 100, seed=2)
    train(session, stream(landing))
    arrives(landing, "b", 120, seed=2)
    arrives(landing, "c", 50, seed=3)
    with pytest.raises(DataError, match=r"1 of 2 files that were learned from have changed since, .*b\.parquet first"):
        go_on(session, stream(landing))
    assert learned(go_on(session, stream(landing), settings=", data_loss = 'continue'")) == (2, "ready", 50)
    assert learned(go_on(session, stream(landing))) == (2, "nothing new", 0)
    arrives(landing, "b", 130, seed=2)
    with pytest.raises(DataError, match=r"1 of 3 files that were learned from have changed since, .*b\.parquet first"):
        go_on(session, stream(landing))
    assert learned(go_on(session, stream(landing), settings=", data_loss = 'continue'")) == (2, "nothing new", 0)
    arrives(landing, "d", 60, seed=4)
    assert learned(go_on(session, stream(landing))) == (3, "ready", 60)


def test_files_that_were_learned_may_go(session: xpsql.Session, landing: Path) -> None:
    train(session, stream(landing))
    arrives(landing, "b", 100, seed=2)
    (landing / "a.parquet").unlink()
    assert learned(go_on(session, stream(landing))) == (2, "ready", 100)


def test_another_stream_than_the_model_learned_from_is_an_error(session: xpsql.Session, landing: Path, tmp_path: Path) -> None:
    train(session, stream(landing))
    arrives(tmp_path / "other", "a", 100, seed=2)
    with pytest.raises(StatementError, match=r"Version 1 of m has learned from files .*landing, and not from files .*other\."):
        go_on(session, stream(tmp_path / "other"))
    assert learned(go_on(session, stream(tmp_path / "other"), settings=", data_loss = 'continue'")) == (2, "ready", 100)
    assert learned(go_on(session, stream(landing))) == (2, "nothing new", 0)


@pytest.mark.parametrize(
    ("query", "more"),
    [
        ("SELECT label, count(*) AS c FROM {} GROUP BY label", "GROUP BY"),
        ("SELECT label, user FROM {} ORDER BY ts", "ORDER BY"),
        ("SELECT DISTINCT label, user FROM {}", "DISTINCT"),
        ("SELECT label, user FROM {} LIMIT 5", "LIMIT"),
        ("SELECT label, user, sum(item) OVER (PARTITION BY user) AS s FROM {}", "a window function"),
        ("SELECT s.label, s.user FROM {} s JOIN users u ON s.user = u.user", "JOIN"),
        ("SELECT max(label) AS label FROM {}", "an aggregate"),
    ],
)
def test_a_query_that_is_not_row_by_row_is_refused_with_the_remedy(
    session: xpsql.Session, landing: Path, query: str, more: str
) -> None:
    text = f"TRAIN MODEL m USING xftrl {AVAILABLE} AS {query.format('STREAM ' + stream(landing))}"
    with pytest.raises(StatementError, match=f"and the query has {more}.*\\. Make such rows first, by INSERT INTO a table"):
        session.sql(text)
    assert not session.models.names()


def test_files_that_differ_in_a_column_that_is_read_are_an_error(session: xpsql.Session, landing: Path) -> None:
    table = log(50, seed=2)
    pq.write_table(table.set_column(3, "item", table["item"].cast(pa.string())), landing / "b.parquet")
    with pytest.raises(DataError, match=r"item is int64 in .*a\.parquet, and .*b\.parquet has string\."):
        train(session, stream(landing))
    files = FolderStream(str(landing), FilesOptions(), session.models.warehouse, False)
    *first, other = files.news({})
    scan = files.scan(f"SELECT item FROM {VIEW}", first)
    assert isinstance(scan, SegmentScan)
    scan.admit(first)
    with pytest.raises(DataError, match=r"b\.parquet has string\."):  # as where it arrives while a training stays
        scan.admit([other])
    pq.write_table(table.drop_columns(["item"]).append_column("more", table["label"]), landing / "b.parquet")
    assert learned(train(session, stream(landing), "label, ts, user")) == (1, "ready", 550)


def test_an_empty_folder_has_nothing_to_train_on(session: xpsql.Session, tmp_path: Path) -> None:
    (tmp_path / "landing").mkdir()
    with pytest.raises(StatementError, match=r"Nothing to learn has arrived in files .*landing yet\. Train once"):
        train(session, stream(tmp_path / "landing"))
    with pytest.raises(StatementError, match=r"There is nothing at .*elsewhere\. Make the folder first"):
        train(session, stream(tmp_path / "elsewhere"))


def test_a_version_that_is_not_from_a_stream_hands_the_position_on(session: xpsql.Session, landing: Path) -> None:
    train(session, stream(landing))
    session.sql(f"CONTINUE MODEL m AS SELECT {COLUMNS} FROM parquet.`{landing}`")
    assert session.models.version("m").number == 2
    assert learned(go_on(session, stream(landing))) == (2, "nothing new", 0)
    arrives(landing, "b", 100, seed=2)
    assert learned(go_on(session, stream(landing), model="m FROM VERSION 1")) == (3, "ready", 100)


def test_the_position_tells_the_files_of_the_newest_day_apart_and_finds_older_ones_that_come_late(
    landing: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folders, "KEPT_FILES", 1)
    now = 1_700_000_000
    for name, age in (("b", 2 * DAY), ("c", DAY // 2), ("d", 0)):
        os.utime(arrives(landing, name, 10, seed=1), (now - age, now - age))
    os.utime(landing / "a.parquet", (now - 3 * DAY, now - 3 * DAY))
    stream, forgiving = (FolderStream(str(landing), FilesOptions(), tmp_path, forgives) for forgives in (False, True))
    position = stream.after({}, stream.news({}))
    assert [Path(path).name for path, *_ in position["files"]] == ["c.parquet", "d.parquet"]
    assert (position["forgotten"], stream.counted(position)) == (2, "530 rows in 4 files")
    assert not stream.waits(position)
    assert stream.news(position) == []
    os.utime(arrives(landing, "late", 10, seed=1), (now - 2 * DAY, now - 2 * DAY))
    assert stream.waits(position)
    with pytest.raises(DataError, match=r"3 files of .* and only 2 such were learned from: 1 came late\. Touch those"):
        stream.news(position)
    assert forgiving.news(position) == []


def test_files_that_are_taken_one_by_one_are_never_older_than_the_position(
    landing: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A training that ends while much waits: names need not be ordered as times are."""
    monkeypatch.setattr(folders, "KEPT_FILES", 1)
    for number, name in enumerate("zyxwvu"):
        os.utime(arrives(landing, name, 10, seed=1), (1_700_000_000 + number * DAY, 1_700_000_000 + number * DAY))
    (landing / "a.parquet").unlink()
    stream = FolderStream(str(landing), FilesOptions(), tmp_path, False)
    feed, taken = Feed(stream, {}, print), []
    while splits := feed.take(1):
        taken += [Path(as_row_group(split).path).stem for split in splits]
        assert len(stream.news(feed.position)) == 6 - len(taken)
    assert taken == list("zyxwvu")
    assert len(Feed(stream, {}, print).take(1, 25)) == 3


def test_explain_tells_what_is_new_and_starts_nothing(session: xpsql.Session, landing: Path) -> None:
    train(session, stream(landing))
    arrives(landing, "b", 300, seed=2)
    text = f"EXPLAIN CONTINUE MODEL m WITH (until = 'available') AS SELECT {COLUMNS} FROM STREAM {stream(landing)}"
    reported = {row["property"]: row["value"] for row in session.sql(text).arrow().to_pylist()}
    assert reported["input"] == "a stream, what is new read in place: 2 splits"
    assert reported["rows"] == "300"
    assert learned(go_on(session, stream(landing))) == (2, "ready", 300)


@costly
def test_spark_learns_the_same_rows_of_a_stream(spark: SparkSession, landing: Path, tmp_path: Path) -> None:
    """Expressions are evaluated where workers run, in tasks as in threads."""
    columns, found = "label, ts, upper(user) AS user, item + 1 AS item, price", []
    for engine in ("duckdb", spark):
        with xpsql.connect(tmp_path / str(len(found)), engine, SilentReporter()) as session:
            assert learned(train(session, stream(landing), columns)) == (1, "ready", 500)
            assert learned(go_on(session, stream(landing), columns)) == (1, "nothing new", 0)
            found.append(rows_of(session).to_pylist())
    assert found[0] == found[1]


def test_answers_name_the_version_that_stays(session: xpsql.Session, landing: Path) -> None:
    first = train(session, stream(landing))
    again = go_on(session, stream(landing))
    assert again == {**first, "status": "nothing new", "examples": 0, "seconds": 0.0}
    assert answer(session, "SHOW VERSIONS OF MODEL m")["version"] == 1


def test_the_error_of_an_unknown_table_is_the_engine_s(session: xpsql.Session) -> None:
    with pytest.raises(StatementError, match=absent("table", "nothere", [], None).message):
        train(session, "nothere")
