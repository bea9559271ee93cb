"""Models that read stored histories: rows get spans of the event image, wherever they are learned or scored."""

from __future__ import annotations

import json
import random
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import xpsql
from tests.cases import costly, costly_after_first, lengthy, quick
from tests.training.test_resume import interrupted, reported_at_once  # noqa: F401  a fixture
from xpsql.platform.errors import ModelError, StatementError
from xpsql.platform.progress import SilentReporter
from xpsql.platform.serving.http import Service
from xpsql.platform.serving.refusal import RequestLimits
from xpsql.platform.serving.served import Served

ROWS, USERS, ITEMS, LONG = 600, 20, 40, 5000
HISTORY = """CREATE HISTORY clicks AS SELECT user, ts, item, category, price, tags FROM events
             PARTITION BY user ORDER BY ts KEEP LAST 1000"""
SHAPE = "hidden = (4), attention = (4), dim = 4, length = 12"
USING = f"USING din (target = (item, category), history = (clicks.item, clicks.category), {SHAPE})"
QUERY = "SELECT user, ts, item, category, click FROM log"
CUT = "WITH (workers = 1, shards = 1, batch_size = 8, checkpoint_seconds = 0.001)"
ARRAYS = "HISTORY(clicks.item, user, ts) AS items, HISTORY(clicks.category, user, ts) AS categories"


def events(draw: random.Random, count: int) -> pa.Table:
    """Return events, of which some lack an item, some are of nobody, and many are of one moment."""
    rows = []
    for _ in range(count):
        item = draw.choice([None, *range(ITEMS)])
        rows.append(
            (
                draw.choice([None, *(f"u{n}" for n in range(USERS))]),
                draw.randrange(300),
                None if item is None else f"i{item}",
                None if item is None else f"c{item % 5}",
                draw.choice([None, 0.5, 1.5]),
                ["new"],
            )
        )
    kinds = [pa.string(), pa.int64(), pa.string(), pa.string(), pa.float64(), pa.list_(pa.string())]
    names = ["user", "ts", "item", "category", "price", "tags"]
    return pa.table([pa.array(column, kind) for column, kind in zip(zip(*rows, strict=True), kinds, strict=True)], names=names)


def log(draw: random.Random) -> pa.Table:
    rows = []
    for _ in range(ROWS):
        item = draw.randrange(ITEMS)
        user = draw.choice([None, "nobody", *(f"u{n}" for n in range(USERS))])
        rows.append((user, draw.choice([None, draw.randrange(300)]), f"i{item}", f"c{item % 5}", draw.randrange(2)))
    kinds = [pa.string(), pa.int64(), pa.string(), pa.string(), pa.int64()]
    names = ["user", "ts", "item", "category", "click"]
    return pa.table([pa.array(column, kind) for column, kind in zip(zip(*rows, strict=True), kinds, strict=True)], names=names)


def make(session: xpsql.Session) -> None:
    draw = random.Random(11)
    for name, rows in (("events", events(draw, 3000)), ("log", log(draw))):
        session.engine.register_rows("made", rows)
        session.sql(f"CREATE TABLE {name} AS SELECT * FROM made")
    session.sql(HISTORY)


@pytest.fixture(name="session")
def made_session(tmp_path: Path) -> Iterator[xpsql.Session]:
    with xpsql.connect(tmp_path / "warehouse", reporter=SilentReporter()) as session:
        make(session)
        yield session


def weights(session: xpsql.Session, model: str) -> dict[str, Any]:
    version = session.models.version(model)
    tables = {name: pa.Table.from_batches(version.rows(name)).sort_by("key") for name in ("weights", "vectors")}
    return {name: table.to_pydict() for name, table in tables.items()}


def predicted(session: xpsql.Session, model: str, query: str = QUERY) -> list[float]:
    found = session.sql(f"SELECT predicted_click FROM ML.PREDICT(MODEL {model}, ({query}))").arrow()
    return list(found["predicted_click"].to_pylist())


def metrics(session: xpsql.Session, model: str, query: str) -> dict[str, Any]:
    (row,) = session.sql(f"SELECT * FROM ML.EVALUATE(MODEL {model}, ({query}))").arrow().to_pylist()
    return dict(row)


@lengthy
@pytest.mark.parametrize("algorithm", quick(["din", "dien"], ["din"]))
def test_a_stored_history_is_learned_and_scored_bit_by_bit_as_its_arrays_are(
    tmp_path: Path, engine: str | SparkSession, algorithm: str
) -> None:
    with xpsql.connect(tmp_path / "warehouse", engine=engine, reporter=SilentReporter()) as session:
        make(session)
        one = "WITH (workers = 1, shards = 1"
        session.sql(f"TRAIN MODEL spans {USING.replace('din', algorithm)} LABEL click {one}) AS {QUERY}")
        arrays = QUERY.replace(" FROM", f", {ARRAYS} FROM")
        session.sql(
            f"TRAIN MODEL arrays USING {algorithm} (target = (item, category), history = (items, categories), {SHAPE}) "
            f"LABEL click IGNORE (ts) {one}, share = (items AS item, categories AS category)) AS {arrays}"
        )
        ordered = "ORDER BY user, ts, item, click"
        of_arrays = predicted(session, "arrays", f"SELECT * FROM ({arrays}) {ordered}")
        assert predicted(session, "spans", f"{QUERY} {ordered}") == pytest.approx(of_arrays, abs=1e-6)
        if engine == "duckdb":
            assert weights(session, "spans") == weights(session, "arrays")
            assert metrics(session, "spans", QUERY)["auc"] == metrics(session, "arrays", arrays)["auc"]


@costly
def test_events_at_and_after_a_rows_moment_change_nothing(session: xpsql.Session) -> None:
    session.sql(f"TRAIN MODEL m {USING} LABEL click AS {QUERY}")
    early = QUERY + " WHERE ts <= 100"
    before = predicted(session, "m", early)
    session.sql("CREATE OR REPLACE TABLE events AS SELECT user, ts, 'i1' AS item, 'c1' AS category, price, tags FROM events "
                "WHERE ts >= 100 UNION ALL SELECT * FROM events WHERE ts < 100")  # fmt: skip
    session.sql("REFRESH HISTORY clicks")
    assert predicted(session, "m", early) == before
    assert predicted(session, "m") != pytest.approx(before)


@costly
def test_the_service_reads_the_image_as_ml_predict_does(session: xpsql.Session) -> None:
    session.sql(f"TRAIN MODEL m {USING} LABEL click AS {QUERY}")
    query = QUERY + " WHERE user = 'u3' AND ts > 200 LIMIT 5"
    rows = session.sql(query).arrow().to_pylist()
    service = Service(
        Served(session.models, ["m"], None, print), RequestLimits(), None, None, traceback.print_exc, lambda *asked: asked
    )

    def answer(body: dict[str, Any]) -> list[float]:
        response = service.handle("POST", "/v1/models/m:predict", {}, json.dumps(body).encode())
        return list(json.loads(response.body)["predictions"])

    instances = [{name: row[name] for name in ("user", "ts", "item", "category")} for row in rows]
    assert answer({"instances": instances}) == predicted(session, "m", query)
    candidates = [{"item": f"i{n}", "category": f"c{n % 5}"} for n in range(9)]
    values = ", ".join(f"('u3', 9223372036854775807, '{one['item']}', '{one['category']}')" for one in candidates)
    of_all = predicted(session, "m", f"SELECT * FROM VALUES {values} AS t (user, ts, item, category)")
    assert answer({"context": {"user": "u3"}, "candidates": candidates}) == of_all


@costly
def test_the_manifest_names_the_version_and_continue_says_which_it_reads(session: xpsql.Session) -> None:
    session.sql(f"TRAIN MODEL m {USING} LABEL click AS {QUERY}")
    session.sql("REFRESH HISTORY clicks")
    notes: list[str] = []
    session.reporter.note = notes.append  # type: ignore[method-assign]
    session.sql(f"CONTINUE MODEL m AS {QUERY}")
    assert "History clicks: version 2; the continued version read version 1." in notes
    (first, second) = (session.models.version("m", number).manifest.histories[0] for number in (1, 2))
    assert (first.version, second.version) == (1, 2)
    assert (first.partition, first.order, first.fields, first.keep) == ("user", "ts", ("item", "category"), 1000)
    shown = session.sql("DESCRIBE MODEL m").arrow().to_pylist()
    assert {"property": "history clicks", "value": "version 2 (item, category), by user before ts"} in shown


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        (QUERY.replace("user,", "CAST(1 AS BIGINT) AS user,"), "whose user is string; the query's user is bigint"),
        (QUERY.replace("user, ", ""), "which is PARTITION BY user; the query returns no column user"),
        (QUERY.replace("ts, ", ""), "which is ORDER BY ts; the query returns no column ts"),
        (QUERY.replace("ts,", "CAST(ts AS STRING) AS ts,"), "whose ts is bigint; the query's ts is string"),
        (QUERY.replace("click ", "click, 1 AS clicks "), "a column clicks, and there is a stored history clicks"),
    ],
)
def test_rows_that_a_history_cannot_be_found_by_are_refused(session: xpsql.Session, statement: str, message: str) -> None:
    with pytest.raises(StatementError, match=message) as error:
        session.sql(f"TRAIN MODEL m {USING} LABEL click AS {statement}")
    assert error.value.position is not None


@costly_after_first
@pytest.mark.parametrize(
    ("named", "message"),
    [
        ("clicks.shop", "the history clicks has the fields item, category, price, tags"),
        ("clicks.price", "clicks.price, which is double; a field is a text"),
        ("clicks.tags", "clicks.tags, whose type no slot has"),
        ("clicks", "names the stored history clicks. Name its fields: clicks.item, clicks.category"),
    ],
)
def test_a_field_that_a_history_lacks_is_refused_at_its_place(session: xpsql.Session, named: str, message: str) -> None:
    using = USING.replace("(item, category)", "(item)").replace("(clicks.item, clicks.category)", f"({named})")
    with pytest.raises(StatementError, match=message) as error:
        session.sql(f"TRAIN MODEL m {using} LABEL click AS {QUERY}")
    assert error.value.position is not None


def test_a_history_of_another_name_is_a_column_that_the_query_lacks(session: xpsql.Session) -> None:
    with pytest.raises(StatementError, match="which the query does not return, and click_log is no stored history"):
        session.sql(f"TRAIN MODEL m {USING.replace('clicks.', 'click_log.')} LABEL click AS {QUERY}")


@costly
def test_a_training_that_was_interrupted_reads_the_version_that_it_began_with(
    session: xpsql.Session,
) -> None:
    train = f"TRAIN MODEL m {USING} LABEL click {CUT} AS {QUERY}"
    session.sql(train)
    whole = weights(session, "m")
    session.sql("DROP MODEL m")
    interrupted(session.models.warehouse, train)
    for _ in range(5):  # more versions than are kept otherwise
        session.sql("INSERT INTO events SELECT * FROM events LIMIT 200; REFRESH HISTORY clicks")
    session.sql("RESUME MODEL m")
    assert weights(session, "m") == whole
    session.sql("REFRESH HISTORY clicks")
    kept = (session.models.warehouse / "histories" / "clicks").glob("v*")
    assert sorted(path.name for path in kept) == ["v5", "v6", "v7"], "the training ended, and with it what it kept"


def users_of(session: xpsql.Session) -> list[str]:
    found = session.sql("SELECT who, HISTORY(clicks.item, who, 400) AS h FROM VALUES ('u3'), ('u4') AS t (who)").arrow()
    return [row["who"] for row in found.to_pylist() if row["h"]]


@costly
def test_a_user_who_is_deleted_is_in_no_version_and_does_not_come_again(tmp_path: Path, engine: str | SparkSession) -> None:
    with xpsql.connect(tmp_path / "warehouse", engine=engine, reporter=SilentReporter()) as session:
        make(session)
        session.sql("DROP HISTORY clicks; " + HISTORY.replace("FROM events", "FROM STREAM events"))
        session.sql("INSERT INTO events SELECT * FROM events LIMIT 50; REFRESH HISTORY clicks")
        if engine == "duckdb":
            interrupted(session.models.warehouse, f"TRAIN MODEL m {USING} LABEL click {CUT} AS {QUERY}")
        before = session.sql("SELECT * FROM events WHERE user = 'u3'").arrow().num_rows
        (row,) = session.sql("DELETE FROM HISTORY clicks WHERE user = 'u3'").arrow().to_pylist()
        assert row == {"history": "clicks", "version": 3, "deleted": before}
        folder = session.models.warehouse / "histories" / "clicks"
        assert [path.name for path in folder.glob("v*")] == ["v3"]
        files = [path for path in folder.rglob("*") if path.is_file() and path.name != "definition.json"]
        assert not [path for path in files if b"u3" in path.read_bytes()]
        assert users_of(session) == ["u4"]
        session.sql("INSERT INTO events SELECT * FROM events WHERE user = 'u3'; REFRESH HISTORY clicks")
        assert users_of(session) == ["u4"]
        if engine == "duckdb":
            with pytest.raises(ModelError, match="DELETE FROM HISTORY clicks removed a user's events at 20"):
                session.sql("RESUME MODEL m")


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("DELETE FROM HISTORY clicks WHERE item = 'i1'", "is PARTITION BY user, and events are deleted by it; got item"),
        ("DELETE FROM HISTORY clicks WHERE user = 7", "Users of the history clicks are string, got 7"),
        ("DELETE FROM HISTORY clicks", "Expected WHERE"),
    ],
)
def test_what_cannot_be_deleted_is_refused_at_its_place(session: xpsql.Session, statement: str, message: str) -> None:
    with pytest.raises(StatementError, match=message) as error:
        session.sql(statement)
    assert error.value.position is not None
