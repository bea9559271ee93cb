"""What comes next is learned and told with what a stored history knows of the time before."""

from __future__ import annotations

import json
import traceback
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import xpsql
from tests.cases import costly
from xpsql.platform.errors import StatementError
from xpsql.platform.progress import SilentReporter
from xpsql.platform.serving.http import Service
from xpsql.platform.serving.refusal import RequestLimits
from xpsql.platform.serving.served import Served

USERS, DAY = 40, 86_400
SHAPE = "dim = 8, length = 32, hidden = (8), dropout = 0"
RANK = f"sequence (actions = did, history = (visits.item, visits.did), {SHAPE})"
COLUMNS = "user, ts, item, did, hour, click"
ONE = "WITH (workers = 1, shards = 1, batch_size = 4096)"


def events(seed: int = 0) -> pa.Table:
    """Return two days of events: a click where the event before of the user was none."""
    random, rows = np.random.default_rng(seed), []
    for user in range(USERS):
        before = int(random.integers(0, 2))
        for number in range(12):
            item, click = f"i{random.integers(0, 20)}", 1 - before
            ts = 1_700_000_000 + number // 6 * DAY + 60 * (number % 6)
            rows.append((f"u{user}", ts, item, f"d{click}", f"h{number % 3}", click, number // 6))
            before = click
    return pa.table(dict(zip((*COLUMNS.split(", "), "day"), map(list, zip(*rows, strict=True)), strict=True)))


def make(session: xpsql.Session) -> None:
    session.engine.register_rows("made", events())
    session.sql("CREATE TABLE log AS SELECT * FROM made")
    session.sql("CREATE HISTORY visits AS SELECT user, ts, item, did FROM log PARTITION BY user ORDER BY ts KEEP LAST 100")


@pytest.fixture(name="session")
def made_session(tmp_path: Path) -> Iterator[xpsql.Session]:
    with xpsql.connect(tmp_path / "warehouse", reporter=SilentReporter()) as session:
        make(session)
        yield session


def two_days(session: xpsql.Session, using: str = RANK) -> None:
    """Train m on the first day, and continue it with the second."""
    session.sql(f"TRAIN MODEL m USING {using} LABEL click GROUP user TIME ts {ONE} AS SELECT {COLUMNS} FROM log WHERE day = 0")
    session.sql(f"CONTINUE MODEL m {ONE} AS SELECT {COLUMNS} FROM log WHERE day = 1")


def predicted(session: xpsql.Session, model: str, query: str, only: str = "true") -> dict[tuple[object, ...], float]:
    rows = session.sql(f"SELECT * FROM ML.PREDICT(MODEL {model}, ({query})) WHERE {only}").arrow().to_pylist()
    return {(row["user"], row["ts"], row["item"]): row["predicted_click"] for row in rows}


@costly
def test_continue_sees_the_events_of_a_history_as_context_and_learns_new_ones_alone(
    tmp_path: Path, engine: str | SparkSession
) -> None:
    with xpsql.connect(tmp_path / "warehouse", engine=engine, reporter=SilentReporter()) as session:
        make(session)
        two_days(session)
        by_hand = RANK.replace("history = (visits.item, visits.did), ", "")
        rows = f"SELECT {COLUMNS}, CAST(1 AS DOUBLE) AS new FROM log"
        session.sql(f"TRAIN MODEL n USING {by_hand} LABEL click WEIGHT new GROUP user TIME ts {ONE} AS {rows} WHERE day = 0")
        session.sql(f"CONTINUE MODEL n {ONE} AS {rows.replace('1 AS DOUBLE', 'day AS DOUBLE')}")
        alone = f"TRAIN MODEL a USING {by_hand} LABEL click WEIGHT new GROUP user TIME ts {ONE} AS {rows} WHERE day = 0"
        session.sql(alone)
        session.sql(f"CONTINUE MODEL a {ONE} AS {rows} WHERE day = 1")
        ask = f"SELECT {COLUMNS} FROM log"
        found, wanted, without = (predicted(session, model, ask) for model in ("m", "n", "a"))
        assert found == pytest.approx(wanted, abs=1e-5)
        assert found != pytest.approx(without, abs=1e-4)
        learned = session.models.version("m").manifest.learned
        assert (learned.examples, learned.examples_total) == (USERS * 6, USERS * 12)


@costly
def test_candidates_see_the_history_as_they_see_the_same_events_in_their_query(session: xpsql.Session) -> None:
    two_days(session)
    past = "SELECT user, ts, item, did, hour FROM log WHERE user IN ('u1', 'u2') AND day = 0"
    asked = (
        f"SELECT user, {1_700_000_000 + DAY} AS ts, CONCAT('i', id) AS item, CAST(NULL AS STRING) AS did, 'h1' AS hour "
        "FROM (SELECT DISTINCT user FROM log WHERE user IN ('u1', 'u2')), range(20)"
    )
    only = f"ts = {1_700_000_000 + DAY}"
    assert predicted(session, "m", asked) == pytest.approx(predicted(session, "m", f"{past} UNION ALL {asked}", only), abs=1e-6)
    session.sql("DELETE FROM HISTORY visits WHERE user = 'u1'")
    assert predicted(session, "m", asked) != pytest.approx(predicted(session, "m", f"{past} UNION ALL {asked}", only), abs=1e-3)


@costly
@pytest.mark.parametrize("encoder", ["hstu", "sasrec"])
def test_the_service_scores_the_candidates_of_a_user_by_the_history_at_any_time(session: xpsql.Session, encoder: str) -> None:
    two_days(session, RANK.replace("(actions", f"(encoder = '{encoder}', actions"))
    service = Service(
        Served(session.models, ["m"], None, print), RequestLimits(), None, None, traceback.print_exc, lambda *asked: asked
    )
    seen: set[float] = set()
    for late in (
        DAY + 30,
        DAY + 200,
        DAY + 230,
        DAY + 400,
        DAY + 5_000,
        2 * DAY,
    ):  # what is kept of the second serves the third
        ts = 1_700_000_000 + late
        candidates = [{"item": f"i{n}", "did": None, "hour": "h1"} for n in range(9)]
        body = {"context": {"user": "u3", "ts": ts}, "candidates": candidates}
        response = service.handle("POST", "/v1/models/m:predict", {}, json.dumps(body).encode())
        values = ", ".join(f"('u3', {ts}L, '{one['item']}', CAST(NULL AS STRING), 'h1')" for one in candidates)
        found = predicted(session, "m", f"SELECT * FROM VALUES {values} AS t (user, ts, item, did, hour)")
        assert json.loads(response.body)["predictions"] == pytest.approx(list(found.values()), abs=1e-6)
        seen.update(found.values())
    assert len(seen) > 9


@costly
def test_users_are_recommended_to_by_what_their_history_has(session: xpsql.Session) -> None:
    session.sql(
        f"TRAIN MODEL r USING sequence (history = (visits.item), dim = 8, length = 32, dropout = 0) GROUP user TIME ts {ONE} "
        "AS SELECT user, ts, item FROM log"
    )
    items, late = "ITEMS (SELECT DISTINCT item FROM log)", 1_700_000_000 + 2 * DAY
    asks = f"SELECT DISTINCT user, {late} AS ts, CAST(NULL AS STRING) AS item FROM log"
    by_history = session.sql(f"SELECT * FROM ML.RECOMMEND(MODEL r, ({asks}), 5, {items})").arrow()
    by_rows = session.sql(
        f"SELECT * FROM ML.RECOMMEND(MODEL r, (SELECT user, ts, item FROM log UNION ALL {asks}), 5, {items})"
    ).arrow()
    assert by_history["item"].to_pylist() == by_rows["item"].to_pylist()
    assert len({*by_history["item"].to_pylist()}) > 5


@costly
def test_a_stream_is_continued_with_the_events_before_it_as_context(tmp_path: Path, engine: str | SparkSession) -> None:
    with xpsql.connect(tmp_path / "warehouse", engine=engine, reporter=SilentReporter()) as session:
        make(session)
        two_days(session)
        session.sql("CREATE TABLE arrived AS SELECT * FROM log WHERE day = 0 ORDER BY ts")
        until = ONE.replace(")", ", until = 'available')")
        continues = f"CONTINUE MODEL s {until} AS SELECT {COLUMNS} FROM STREAM arrived"
        session.sql(
            f"TRAIN MODEL s USING {RANK} LABEL click GROUP user TIME ts {until} AS SELECT {COLUMNS} FROM STREAM arrived"
        )
        session.sql("INSERT INTO arrived SELECT * FROM log WHERE day = 1")
        session.sql(continues)
        ask = f"SELECT {COLUMNS} FROM log"
        assert predicted(session, "s", ask) == pytest.approx(predicted(session, "m", ask), abs=1e-5)
        assert session.sql(continues).arrow()["status"].to_pylist() == ["nothing new"]


@pytest.mark.parametrize(
    ("using", "clauses", "message"),
    [
        (RANK.replace("visits.", "visit."), "GROUP user TIME ts", "there is no stored history visit. Did you mean visits"),
        (RANK.replace(", visits.did", ""), "GROUP user TIME ts", "name 2 fields of a stored history, got visits.item"),
        (RANK.replace("visits.did", "visits.shop"), "GROUP user TIME ts", "the history visits has the fields item, did"),
        (RANK, "GROUP item TIME ts", "GROUP names item, and the history visits is PARTITION BY user"),
        (RANK, "GROUP user TIME click", "TIME names click, and the history visits is ORDER BY ts"),
        (RANK.replace("dim = 8", "dim = 8, context = 32"), "GROUP user TIME ts", "context = 32 events would fill a window"),
        ("sequence (context = 9)", "GROUP user TIME ts", "history"),
        (RANK.replace("(visits.item, visits.did)", "visits"), "GROUP user TIME ts", "Name its fields: visits.item, visits.did"),
    ],
)
def test_a_history_that_cannot_stand_before_rows_is_refused_at_its_place(
    session: xpsql.Session, using: str, clauses: str, message: str
) -> None:
    with pytest.raises(StatementError, match=message) as error:
        session.sql(f"TRAIN MODEL m USING {using} LABEL click {clauses} AS SELECT {COLUMNS} FROM log")
    assert error.value.position is not None


def test_a_stream_that_is_learned_as_it_arrives_is_refused_as_users_would_be_cut(session: xpsql.Session) -> None:
    with pytest.raises(StatementError, match="sequence reads a user's rows together") as error:
        session.sql(
            f"TRAIN MODEL m USING {RANK} LABEL click GROUP user TIME ts PUBLISH EVERY 1 MINUTES "
            f"AS SELECT {COLUMNS} FROM STREAM log"
        )
    assert error.value.position is not None
