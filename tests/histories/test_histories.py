"""Histories of the warehouse: online, batch and the definition say the same, and each event is in them once."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import xpsql
from tests.cases import costly, costly_after_first, lengthy, slow
from xpsql.platform.errors import ModelError, StatementError
from xpsql.platform.histories.event_image import opened
from xpsql.platform.histories.image import HistoryImage, keys_of
from xpsql.platform.histories.stored import HistoryVersion, StoredHistories
from xpsql.platform.progress import SilentReporter
from xpsql.platform.serving.histories import FilledColumns
from xpsql.platform.serving.http import Service
from xpsql.platform.serving.refusal import RequestLimits
from xpsql.platform.serving.served import Served
from xpsql.warehouse import mapped

KEEP = 3
Event = tuple[str | None, int | None, str | None, str | None]  # user, ts, item, shop
TYPES = pa.schema([("user", pa.string()), ("ts", pa.int32()), ("item", pa.string()), ("shop", pa.string())])
OF_STREAM = f"""CREATE HISTORY clicks AS SELECT user, ts, item, shop FROM STREAM log
                PARTITION BY user ORDER BY ts KEEP LAST {KEEP}"""


KILLED = """
import os, sys, xpsql
from xpsql.platform.histories.stored import StoredHistories
StoredHistories.publish = lambda *arguments: os.kill(os.getpid(), 9)  # all files are there, the version is not
xpsql.connect(sys.argv[1]).sql("REFRESH HISTORY clicks")
"""


def drawn(draw: random.Random, first: int, last: int) -> list[Event]:
    """Return events of a stretch of time, some of them late, of which many tie and some lack something."""
    return [
        (
            draw.choice(["a", "b", "c", "d", None]),
            draw.choice([None, draw.randrange(0, last), *[draw.randrange(first, last) for _ in range(6)]]),
            draw.choice(["x", "y", "z", None]),
            draw.choice(["s", "t", None]),
        )
        for _ in range(300)
    ]


def add(session: xpsql.Session, events: Sequence[Event]) -> None:
    session.engine.register_rows("new", pa.table(list(zip(*events, strict=True)), schema=TYPES))
    exists = "log" in session.engine.relations()
    session.sql("INSERT INTO log SELECT * FROM new" if exists else "CREATE TABLE log AS SELECT * FROM new")


def defined(events: Sequence[Event], user: str | None, ts: int | None, within: int | None) -> list[tuple[Any, Any]]:
    """Return the item and the shop of the user's last events that are strictly earlier; ts None: of all."""

    def place(event: Event) -> tuple[Any, ...]:
        return event[1], *((value is not None, value or "") for value in event[2:])

    own = [
        event for event in events
        if event[0] == user and user is not None and event[1] is not None and (event[2] is not None or event[3] is not None)
        if ts is None or event[1] < ts
    ]  # fmt: skip
    last = sorted(own, key=place)[-KEEP:]
    return [event[2:] for event in last if within is None or ts is None or event[1] >= ts - within]  # type: ignore[operator]


def online(version: HistoryVersion, user: str | None, ts: int | None, within: int | None) -> list[tuple[Any, Any]]:
    image = HistoryImage(version.folder / "image", "ts", within)
    lists = (image.last(pa.array([user], pa.string()), ts, value).to_pylist() for value in ("item", "shop"))
    return list(zip(*lists, strict=True))


def in_image(
    version: HistoryVersion, asked: Sequence[tuple[str | None, int]], within: int | None
) -> list[list[tuple[Any, Any]]]:
    """Return the item and the shop of the events that an event image has of rows, which are users at moments."""
    image = opened(version.folder / "all")
    users, times = (pa.array(side) for side in zip(*asked, strict=True))
    spans = image.spans(users.cast(image.user_type), image.times_of(times), within, KEEP)
    item, shop = (field.values.take(pa.array(field.codes)).to_pylist() for field in map(image.field, ("item", "shop")))
    return [list(zip(item[begin:end], shop[begin:end], strict=True)) for begin, end in zip(*spans, strict=True)]


def newest(session: xpsql.Session) -> HistoryVersion:
    version = StoredHistories(session.models.warehouse).newest("clicks")
    assert version is not None
    return version


def check(session: xpsql.Session, events: Sequence[Event], within: int | None) -> None:
    """Compare the image with the definition at the end, and SQL at each moment."""
    end = 1 + max(event[1] for event in events if event[1] is not None)
    for user in ("a", "b", "c", "d", "nobody", None):
        assert online(newest(session), user, end, within) == defined(events, user, end, within)
        if within is None:
            assert online(newest(session), user, None, None) == defined(events, user, None, None)
    asked = [(user, ts) for user in ("a", "b", "nobody") for ts in range(0, end + 1, 7)]
    assert in_image(newest(session), asked, within) == [defined(events, *one, within) for one in asked]
    session.engine.register_rows("asked", pa.table(list(zip(*asked, strict=True)), names=["who", "at"]))
    found = session.sql(
        "SELECT who, at, HISTORY(clicks.item, who, at) AS i, HISTORY(clicks.shop, i.who, i.at) AS s FROM asked i"
    ).arrow()
    assert found.num_rows == len(asked)
    for row in found.to_pylist():
        assert list(zip(row["i"], row["s"], strict=True)) == defined(events, row["who"], row["at"], within)


@lengthy
@costly_after_first
def test_a_history_of_a_stream_has_each_event_once_whatever_is_killed(tmp_path: Path, engine: str | SparkSession) -> None:
    draw = random.Random(3)
    with xpsql.connect(tmp_path / "warehouse", engine=engine, reporter=SilentReporter()) as session:
        events = drawn(draw, 0, 50)
        add(session, events)
        session.sql(OF_STREAM)
        check(session, events, None)
        more = drawn(draw, 30, 80)
        add(session, more)
        events += more
        if engine == "duckdb":
            killed = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path / "warehouse")], timeout=300, check=False)
            assert killed.returncode == -9
            assert list((tmp_path / "warehouse" / "histories" / "clicks").glob(".draft-*"))
        assert newest(session).number == 1
        session.sql("REFRESH HISTORY clicks")
        assert newest(session).rows == len(events)
        check(session, events, None)
        (row,) = session.sql("REFRESH HISTORY clicks").arrow().to_pylist()  # nothing has come
        assert (row["version"], row["events"]) == (2, len(events))
        assert session.sql("SHOW HISTORIES").arrow().to_pylist() == [row]
        assert not list((tmp_path / "warehouse" / "histories" / "clicks").glob(".draft-*"))


PUBLISHING = """
import sys, xpsql
xpsql.connect(sys.argv[1]).sql("REFRESH HISTORY clicks PUBLISH EVERY 1 SECOND")
"""


def until_it_has(session: xpsql.Session, events: int) -> None:
    deadline = time.monotonic() + 120
    while newest(session).rows < events:
        assert time.monotonic() < deadline, newest(session)
        time.sleep(0.05)


@slow
def test_a_history_is_published_again_and_again_until_it_is_stopped(tmp_path: Path) -> None:
    draw = random.Random(5)
    with xpsql.connect(tmp_path / "warehouse", reporter=SilentReporter()) as session:
        events = drawn(draw, 0, 50)
        add(session, events)
        session.sql(OF_STREAM)
        command = [sys.executable, "-c", PUBLISHING, str(tmp_path / "warehouse")]
        for ends in ("killed", "stopped"):
            with subprocess.Popen(command) as process:
                try:
                    for _ in range(5):
                        more = drawn(draw, 30, 80)
                        add(session, more)
                        events += more
                        until_it_has(session, len(events))
                    with pytest.raises(ModelError, match="is being refreshed by another process"):
                        session.sql("REFRESH HISTORY clicks")
                    if ends == "stopped":
                        add(session, events[:7])
                        events += events[:7]
                        (row,) = session.sql("STOP HISTORY clicks").arrow().to_pylist()
                        assert (row["events"], process.wait(60)) == (len(events), 0)
                finally:
                    process.kill()
        check(session, events, None)
        files = [pq.read_metadata(file).num_rows for file in newest(session).events.glob("*.parquet")]
        assert sum(files) == len(events)
        assert len(files) < 8, "files of a size are made one"
        with pytest.raises(ModelError, match="No process publishes history clicks"):
            session.sql("STOP HISTORY clicks")


@costly
def test_a_history_of_a_query_is_made_anew_and_forgets_what_is_old(tmp_path: Path) -> None:
    draw = random.Random(4)
    with xpsql.connect(tmp_path / "warehouse", reporter=SilentReporter()) as session:
        events = drawn(draw, 0, 60)
        add(session, events)
        session.sql(OF_STREAM.replace("STREAM", "") + " WITHIN 9")
        check(session, events, 9)
        for _ in range(4):
            session.sql("REFRESH HISTORY clicks")
        check(session, events, 9)
        assert newest(session).number == 5
        assert len(list((tmp_path / "warehouse" / "histories" / "clicks").glob("v*"))) == 3
        reported = {row["property"]: row["value"] for row in session.sql("DESCRIBE HISTORY clicks").arrow().to_pylist()}
        assert (reported["keep last"], reported["within"], reported["values"]) == ("3", "9", "item, shop")
        session.sql("DROP HISTORY clicks; DROP HISTORY IF EXISTS clicks")
        with pytest.raises(ModelError, match="There is no history clicks"):
            session.sql("SELECT HISTORY(clicks.item, user, ts) FROM log")


def test_the_service_fills_what_requests_lack_and_follows_the_history(tmp_path: Path) -> None:
    with xpsql.connect(tmp_path / "warehouse", reporter=SilentReporter()) as session:
        add(session, [("a", 1, "x", "s"), ("a", 2, "y", "s"), ("b", 3, "z", None)])
        session.sql(OF_STREAM)
        columns = FilledColumns(StoredHistories(session.models.warehouse), ["clicked=clicks.item", "shop=clicks.shop"], print)
        assert columns.filled([{"ad": 1}], {"User": "a"}) == (
            [{"ad": 1}],
            {"User": "a", "clicked": ["x", "y"], "shop": ["s", "s"]},
        )
        assert columns.filled([{"user": "a", "ts": 2}, {"user": 7, "ts": 9}], {"shop": []}) == (
            [{"user": "a", "ts": 2, "clicked": ["x"]}, {"user": 7, "ts": 9, "clicked": []}],
            {"shop": []},
        )
        assert columns.filled([{"user": "b", "clicked": ["own"]}], {"ts": 3})[0] == [
            {"user": "b", "clicked": ["own"], "shop": []}
        ]
        own = {"clicked": ["own"], "shop": []}
        assert columns.filled([own], {"user": "a"}) == ([own], {"user": "a"})
        add(session, [("b", 4, "x", "t")])
        session.sql("REFRESH HISTORY clicks")
        for column in columns.columns:
            column.refresh()
        assert columns.filled([{"user": "b"}], {})[0] == [{"user": "b", "clicked": ["z", "x"], "shop": [None, "t"]}]


OF_LOG = "CREATE HISTORY h AS SELECT user, ts, item FROM log"


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("CREATE HISTORY h AS SELECT user, ts, item FROM log", "Expected a query and PARTITION BY column"),
        ("CREATE HISTORY h AS SELECT user, ts FROM log PARTITION BY user ORDER BY ts KEEP LAST 5", "needs a column other than"),
        (f"{OF_LOG} PARTITION BY who ORDER BY ts KEEP LAST 5", "no column who"),
        (
            "CREATE HISTORY h AS SELECT *, 1 AS Item FROM log PARTITION BY user ORDER BY ts KEEP LAST 5",
            "returns two columns item; rename one with AS",
        ),
        (
            "CREATE HISTORY `` AS SELECT user, ts, item FROM log PARTITION BY user ORDER BY ts KEEP LAST 5",
            "A name takes 1 to 200 bytes",
        ),
        (
            f"{OF_LOG} PARTITION BY user ORDER BY ts KEEP LAST 0",
            "from 1 to 1,000,000, got 0",
        ),
        (f"{OF_LOG} PARTITION BY user ORDER BY item KEEP LAST 5", "item is string"),
        (
            f"{OF_LOG} PARTITION BY user ORDER BY ts KEEP LAST 5 WITHIN INTERVAL 3 DAYS",
            "WITHIN takes INTERVAL",
        ),
        (f"{OF_LOG} PARTITION BY user ORDER BY ts KEEP LAST 5 PUBLISH EVERY 5 SECONDS", "is for a history of a stream"),
        ("REFRESH HISTORY clicks PUBLISH EVERY 5 EXAMPLES", "every n SECONDS or MINUTES"),
        ("REFRESH HISTORY nothing", "There is no history nothing"),
        ("SELECT HISTORY(clicks.price, user, ts) FROM log", "has the values item, shop, got price"),
        ("SELECT HISTORY(clicks.item, (user, ts), ts) FROM log", r"is by \(user\)"),
        (OF_STREAM, "The history clicks exists"),
    ],
)
def test_what_is_no_history_is_reported(small: xpsql.Session, statement: str, message: str) -> None:
    with pytest.raises((StatementError, ModelError), match=message):
        small.sql(statement)
    assert StoredHistories(small.models.warehouse).names() == ["clicks"]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with xpsql.connect(tmp_path_factory.mktemp("small"), reporter=SilentReporter()) as session:
        add(session, [("a", 1, "x", "s")])
        session.sql(OF_STREAM)
        yield session


def test_a_damaged_image_is_reported(small: xpsql.Session, tmp_path: Path) -> None:
    version = newest(small)
    for name in ("users.arrow", "events.arrow"):
        shutil.copytree(version.folder / "image", tmp_path / "image")
        whole = (path := tmp_path / "image" / name).read_bytes()
        for content in (b"nothing", whole[: len(whole) // 2], whole.replace(b"x" if name[0] == "e" else b"a", b"z", 1)):
            path.write_bytes(content)
            with pytest.raises(ModelError, match="REFRESH HISTORY makes another one"):
                HistoryImage(tmp_path / "image", "ts", None, version.sums)
        shutil.rmtree(tmp_path / "image")


def test_an_image_that_is_cut_off_while_it_is_mapped_is_reported(small: xpsql.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mapped, "MAPPED_BYTES", 0)
    folder = newest(small).folder / "image"
    for name in ("users.arrow", "events.arrow"):
        whole = (path := folder / name).read_bytes()
        image = HistoryImage(folder, "ts", None)
        assert image.last(pa.array(["a"]), None, "item").to_pylist() == ["x"]
        with path.open("r+b") as file:
            file.truncate(len(whole) // 2)
        with pytest.raises(ModelError, match="REFRESH HISTORY makes another one"):
            image.last(pa.array(["a"]), None, "item")
        path.write_bytes(whole)


@pytest.mark.parametrize("name", ["users", "events"])
def test_an_image_that_points_out_of_itself_is_damaged(tmp_path: Path, name: str) -> None:
    places = {file: np.array([0, 1 << 30 if file == name else 1, 2], np.int32) for file in ("users", "events")}
    texts = {file: pa.StringArray.from_buffers(2, pa.py_buffer(at), pa.py_buffer(b"ab")) for file, at in places.items()}
    spans = {"key": np.repeat(keys_of(pa.array(["a"])), 2), "begin": np.array([0, 0]), "end": np.array([2, 2])}
    tables = {
        "users": pa.table({"user": texts["users"], **spans}),
        "events": pa.table({"ts": np.array([1, 2]), "item": texts["events"]}),
    }
    for file, table in tables.items():
        with pa.OSFile(str(tmp_path / f"{file}.arrow"), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
    image = HistoryImage(tmp_path, "ts", None)
    with pytest.raises(ModelError, match="REFRESH HISTORY makes another one"):
        image.last(pa.array(["a"]), None, "item")


def test_a_damaged_history_concerns_itself_alone(tmp_path: Path) -> None:
    with xpsql.connect(tmp_path / "warehouse", reporter=SilentReporter()) as session:
        add(session, [("a", 1, "x", "s")])
        session.sql(OF_STREAM)
        session.sql(OF_STREAM.replace("clicks", "others"))
        folder = newest(session).folder
        for text in (
            "nothing",
            "[]",
            '{"format": 1}',
            '{"format": 1, "rows": "x"}',
            (folder / "manifest.json").read_text()[:40],
        ):
            (folder / "manifest.json").write_text(text)
            with pytest.raises(ModelError, match="is damaged"):
                session.sql("DESCRIBE HISTORY clicks")
            listed = session.sql("SHOW HISTORIES").arrow().to_pylist()
            assert [(row["history"], row["version"]) for row in listed] == [("clicks", None), ("others", 1)]
        (folder.parent / "definition.json").write_text('{"format": 1, "name": 3}')
        with pytest.raises(ModelError, match="DROP HISTORY clicks"):
            session.sql("REFRESH HISTORY clicks")
        session.sql("DROP HISTORY clicks")
        assert StoredHistories(session.models.warehouse).names() == ["others"]


@costly
def test_a_model_is_served_what_it_was_trained_on(tmp_path: Path) -> None:
    draw = random.Random(6)
    with xpsql.connect(tmp_path / "warehouse", reporter=SilentReporter()) as session:
        events = [(draw.choice("abc"), ts, draw.choice("xyz"), draw.choice("st")) for ts in range(200)]
        add(session, events[:-1])
        session.sql(OF_STREAM)
        add(session, events[-1:])  # what is asked now is in no history yet
        session.sql("CREATE TABLE shown AS SELECT user, ts, item, HISTORY(clicks.item, user, ts) AS clicked FROM log")
        session.sql("TRAIN MODEL m USING xftrl LABEL y IGNORE (ts) AS SELECT *, CAST(item = 'x' AS INT) AS y FROM shown")
        (last,) = session.sql("SELECT * FROM ML.PREDICT(MODEL m, TABLE shown) WHERE ts = 199").arrow().to_pylist()
        columns = FilledColumns(StoredHistories(session.models.warehouse), ["clicked=clicks.item"], print)
        service = Service(
            Served(session.models, ["m"], None, print), RequestLimits(), None, None, traceback.print_exc, columns.filled
        )
        body = json.dumps({"context": {"user": last["user"], "ts": 199}, "candidates": [{"item": last["item"]}]})
        response = service.handle("POST", "/v1/models/m:predict", {}, body.encode())
    assert len(last["clicked"]) == KEEP
    assert json.loads(response.body)["predictions"] == [last["predicted_y"]]
