"""TRANSFORM: one list for training, scoring, streams and the service."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

import xpsql
from tests.cases import costly, lengthy
from tests.serving.conftest import Client, failing, loaded_of
from xpsql.platform.errors import StatementError
from xpsql.platform.progress import SilentReporter
from xpsql.platform.serving.http import Service
from xpsql.platform.serving.keys import keys_of
from xpsql.platform.serving.refusal import RequestLimits
from xpsql.platform.serving.request_log import KEYS_COLUMN, Entry, rows_of
from xpsql.platform.serving.served import Served

LOG = """
SELECT id, concat('u', id % 50) AS user, concat('c', least(id % 9, 6)) AS category,
    CASE WHEN id % 11 > 0 THEN CAST(id % 90 AS DOUBLE) END AS price, CAST(18 + id % 60 AS INT) AS age,
    concat('Red Car ', id % 3) AS title, CAST(pmod(xxhash64(id), 10) < 3 + id % 3 AS INT) AS click,
    timestamp_seconds(1700000000 + id * 60) AS ts
FROM range(2000)
"""
LIST = """
    bucketize(price, QUANTILES(price, 4)) AS price,  -- of the rows that are trained on
    cross(user, category) AS user_x_category,
    hour(ts) AS hour,
    split(lower(title), ' ') AS title,
    clip((age - MEAN(age)) / STDDEV(age), -1.5, 1.5) AS age,
    (price - MIN(price)) / (MAX(price) - MIN(price)) AS share,
    CASE WHEN array_contains(VOCABULARY(category, 300), category) THEN category ELSE MODE(category) END AS category,
    * EXCEPT (price, title, age, category, id)
"""
BY_HAND = """
    bucketize(price, array(21.75D, 44.5D, 67.25D)) AS price, cross(user, category) AS user_x_category, hour(ts) AS hour,
    split(lower(title), ' ') AS title, clip((age - {mean!r}D) / {deviation!r}D, -1.5, 1.5) AS age,
    (price - 0D) / 89D AS share, 'c6' AS category, user, click, ts
"""
ROWS = "SELECT slot, key, weight, count FROM ML.WEIGHTS(MODEL {model}) ORDER BY key"
RAW = ("user", "category", "price", "age", "title", "ts")


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[xpsql.Session]:
    with xpsql.connect(tmp_path_factory.mktemp("warehouse"), reporter=SilentReporter()) as session:
        session.sql(f"CREATE TABLE log AS {LOG}")
        session.sql(f"TRAIN MODEL ctr USING xftrl LABEL click TIME ts TRANSFORM ({LIST}) AS SELECT * FROM log")
        yield session


NOT_FINITE = """
SELECT click, user, CASE id WHEN 7 THEN CAST('NaN' AS DOUBLE) WHEN 8 THEN CAST('Infinity' AS DOUBLE)
    WHEN 9 THEN CAST('-Infinity' AS DOUBLE) ELSE CAST(id % 13 AS DOUBLE) END AS price
FROM log
"""
CONSTANTS = "bucketize(price, QUANTILES(price, 4)) AS b, price / MAX(price) AS c, (price - MEAN(price)) / STDDEV(price) AS d"


@lengthy
def test_constants_are_of_finite_values_alone(session: xpsql.Session) -> None:
    for name, where in (("all", ""), ("finite", "WHERE abs(price) < CAST('Infinity' AS DOUBLE)")):
        query = f"SELECT * FROM ({NOT_FINITE}) {where}"
        session.sql(f"TRAIN OR REPLACE MODEL {name} USING xftrl LABEL click TRANSFORM ({CONSTANTS}) AS {query}")
    found, wanted = (
        rows(session, f"SELECT option, value FROM ML.OPTIONS(MODEL `{name}`) WHERE clause = 'TRANSFORM'")
        for name in ("all", "finite")
    )
    assert found == wanted
    slots = {row["slot"] for row in rows(session, "SELECT slot FROM ML.WEIGHTS(MODEL `all`) WHERE count > 1000")}
    assert {"c", "d"} <= slots


def rows(session: xpsql.Session, text: str) -> list[dict[str, Any]]:
    return list(session.sql(text).arrow().to_pylist())


def by_hand(session: xpsql.Session) -> str:
    """Return the list as one would write it who knows the constants."""
    (found,) = rows(
        session, "SELECT percentile(price, array(0.25D, 0.5D, 0.75D)) AS q, avg(age) AS m, stddev(age) AS s FROM log"
    )
    text = BY_HAND.format(mean=found["m"], deviation=found["s"])
    return text.replace("21.75D, 44.5D, 67.25D", ", ".join(f"{bound!r}D" for bound in found["q"]))


@costly
def test_a_model_with_transform_has_the_rows_of_one_over_the_transformed_query(session: xpsql.Session) -> None:
    session.sql(f"TRAIN MODEL plain USING xftrl LABEL click TIME ts AS SELECT {by_hand(session)} FROM log")
    one, other = (rows(session, ROWS.format(model=model)) for model in ("ctr", "plain"))
    assert len(one) > 400
    assert one == other


@costly
def test_scoring_takes_the_raw_columns_alone(session: xpsql.Session) -> None:
    raw = rows(session, f"SELECT * FROM ML.PREDICT(MODEL ctr, (SELECT {', '.join(RAW)} FROM log))")
    session.sql(f"TRAIN OR REPLACE MODEL twin USING xftrl LABEL click TIME ts AS SELECT {by_hand(session)} FROM log")
    wanted = rows(session, f"SELECT * FROM ML.PREDICT(MODEL twin, (SELECT {by_hand(session)} FROM log))")
    assert list(raw[0]) == [*RAW, "predicted_click"]
    assert raw[1]["price"] == 1.0, "the input's columns are carried as they came"
    assert [row["predicted_click"] for row in raw] == [row["predicted_click"] for row in wanted]


@lengthy
def test_evaluate_takes_raw_rows(session: xpsql.Session) -> None:
    (measured,) = rows(session, "SELECT examples, auc FROM ML.EVALUATE(MODEL ctr, TABLE log)")
    scored = "SELECT auc(click, predicted_click) AS auc FROM ML.PREDICT(MODEL ctr, TABLE log)"
    assert measured == {"examples": 2000, "auc": pytest.approx(rows(session, scored)[0]["auc"], abs=1e-6)}


@lengthy
def test_ml_transform_shows_what_is_learned_from(session: xpsql.Session) -> None:
    found = session.sql("SELECT * FROM ML.TRANSFORM(MODEL ctr, TABLE log)").arrow()
    wanted = session.sql(f"SELECT {by_hand(session)} FROM log").arrow()
    names = ["price", "user_x_category", "hour", "title", "age", "share", "user", "click"]
    assert found.select(names).equals(wanted.select(names))
    assert set(found.column("category").to_pylist()) == {"c6"}, "the others come less than 300 times, and c6 is the mode"


@costly
def test_continue_keeps_the_constants(session: xpsql.Session) -> None:
    half = "SELECT * FROM log WHERE price > 44"
    session.sql(f"TRAIN OR REPLACE MODEL goes_on USING xftrl LABEL click TIME ts TRANSFORM ({LIST}) AS SELECT * FROM log")
    session.sql(f"CONTINUE MODEL goes_on AS {half}")
    session.sql(f"CONTINUE MODEL goes_on FROM VERSION 1 TRANSFORM ({LIST}) AS {half}")
    session.sql(f"TRAIN OR REPLACE MODEL hand USING xftrl LABEL click TIME ts AS SELECT {by_hand(session)} FROM log")
    session.sql(f"CONTINUE MODEL hand AS SELECT {by_hand(session)} FROM ({half})")
    assert rows(session, ROWS.format(model="goes_on VERSION 2")) == rows(session, ROWS.format(model="hand"))
    assert rows(session, ROWS.format(model="goes_on VERSION 3")) == rows(session, ROWS.format(model="hand"))


@lengthy
def test_rows_held_out_by_a_query_are_raw(session: xpsql.Session) -> None:
    session.sql(
        f"TRAIN MODEL held USING xftrl LABEL click TIME ts TRANSFORM ({LIST}) VALIDATE ON (SELECT * FROM log WHERE id < 300) "
        "AS SELECT * FROM log WHERE id >= 300"
    )
    (wanted,) = rows(session, "SELECT auc FROM ML.EVALUATE(MODEL held, (SELECT * FROM log WHERE id < 300))")
    assert session.models.version("held").manifest.validation["auc"] == pytest.approx(wanted["auc"], abs=1e-6)


@costly
def test_streams_are_transformed(session: xpsql.Session) -> None:
    text = "hour(ts) AS hour, cross(user, category) AS both"
    session.sql(
        f"TRAIN MODEL flow USING xftrl LABEL click TRANSFORM ({text}) WITH (until = 'available') AS SELECT * FROM STREAM log"
    )
    session.sql(f"TRAIN MODEL still USING xftrl LABEL click AS SELECT {text}, click FROM log")
    assert rows(session, ROWS.format(model="flow")) == rows(session, ROWS.format(model="still"))
    with pytest.raises(StatementError, match="a stream has no end") as refused:
        session.sql(
            "TRAIN MODEL f2 USING xftrl LABEL click TRANSFORM (age - MEAN(age) AS age) WITH (until = 'available') "
            "AS SELECT * FROM STREAM log"
        )
    assert refused.value.position is not None
    assert refused.value.position.text == "MEAN(age)"
    for clause, words in (
        ("WITH (until = 'available', passes = 2)", "a stream is learned once"),
        ("VALIDATE ON 0.1 WITH (until = 'available')", "a stream does not"),
    ):
        with pytest.raises(StatementError, match=words):
            session.sql(f"TRAIN MODEL f2 USING xftrl LABEL click TRANSFORM (user) {clause} AS SELECT * FROM STREAM log")
    session.sql("TRAIN OR REPLACE MODEL twice USING xftrl LABEL click WITH (passes = 2) AS SELECT user, click FROM log")
    (row,) = rows(session, "CONTINUE MODEL twice WITH (until = 'available') AS SELECT user, click FROM STREAM log")
    assert row["examples"] == 2000, "the parent's passes do not apply to a stream"


def test_settings_after_the_query_are_reported_their_place(session: xpsql.Session) -> None:
    with pytest.raises(StatementError, match="before AS query") as refused:
        session.sql("TRAIN MODEL no USING xftrl LABEL click AS SELECT user, click FROM log WITH (passes = 2)")
    assert refused.value.position is not None
    assert (refused.value.position.column, refused.value.position.text) == (71, "WITH")


@lengthy
def test_a_stream_goes_on_with_a_list_that_was_fitted(session: xpsql.Session) -> None:
    session.sql("TRAIN MODEL fed USING xftrl LABEL click TRANSFORM (user, age - MEAN(age) AS age) AS SELECT * FROM log")
    (row,) = rows(session, "CONTINUE MODEL fed WITH (until = 'available') AS SELECT * FROM STREAM log")
    assert (row["version"], row["examples"]) == (2, 2000)


@costly
def test_the_service_takes_raw_columns(session: xpsql.Session) -> None:
    text = "bucketize(price, QUANTILES(price, 4)) AS price, cross(user, category) AS both, age - MEAN(age) AS age"
    session.sql(f"TRAIN MODEL served USING xftrl LABEL click TRANSFORM ({text}) AS SELECT * FROM log")
    client = Client(Service(Served(session.models, ["served"], None, print), RequestLimits(), None, None, failing))
    query = "(SELECT user, category, price, age FROM log LIMIT 40)"
    instances = session.sql(query[1:-1]).arrow().to_pylist()
    wanted = [r["predicted_click"] for r in rows(session, f"SELECT predicted_click FROM ML.PREDICT(MODEL served, {query})")]
    assert client.predict({"instances": instances}, "served") == pytest.approx(wanted, abs=1e-7)
    problem = client.problem("/v1/models/served:predict", {"instances": [{"user": "u1"}]})
    assert "lacks the column" in problem


@costly
def test_what_is_logged_is_raw_and_its_keys_are_those_that_were_scored(session: xpsql.Session) -> None:
    with session.models.reading("ctr", None) as version:
        loaded = loaded_of(version)
    raw = session.sql(f"SELECT {', '.join(RAW)} FROM log LIMIT 5").arrow()
    table = pa.table({column.name: raw.column(column.name) for column in loaded.inputs})
    entry = Entry(loaded, lambda: table, loaded.predict(table), datetime(2024, 1, 1, tzinfo=UTC), 0.0, None)
    logged = rows_of([entry], explores=False)
    assert logged.column("price").to_pylist() == raw.column("price").to_pylist()
    assert logged.column(KEYS_COLUMN).to_pylist() == keys_of(loaded.features(table), loaded.columns).to_pylist()


def test_a_version_tells_its_list_with_the_constants(session: xpsql.Session) -> None:
    reported = {row["property"]: row["value"] for row in rows(session, "DESCRIBE MODEL ctr")}
    options = rows(session, "SELECT option FROM ML.OPTIONS(MODEL ctr) WHERE clause = 'TRANSFORM'")
    assert "QUANTILES(price, 4)" in reported["transform"]
    assert "QUANTILES" not in reported["transform price"]
    assert reported["transform share"] == "(price - (0.0D)) / ((89.0D) - (0.0D))"
    assert [row["option"] for row in options][:3] == ["price", "user_x_category", "hour"]


@pytest.mark.parametrize(
    ("items", "place", "words"),
    [
        ("user, sum(price) AS s", "sum(price) AS s", "the aggregates that it fits are QUANTILES"),
        ("user, rank() OVER (ORDER BY age) AS r", "rank() OVER (ORDER BY age) AS r", "OVER reads several"),
        ("user, (SELECT max(age) FROM log) AS m", "(SELECT max(age) FROM log) AS m", "Join them in the query"),
        ("user, explode(array(1)) AS m", "explode(array(1)) AS m", "one row at a time"),
        ("user, rand() AS r", "rand() AS r", "the same value whenever"),
        ("user, 1 + RATE(click, user) AS r", "1 + RATE(click, user) AS r", "RATE is a column of its own"),
        ("user, RATE(clik, user) AS r", "RATE(clik, user) AS r", r"write RATE\(click, ...\)"),
        ("user, RATE(click) AS r", "RATE(click) AS r", r"takes \(label, expression \[, prior\]\)"),
        ("RATE(click, user) AS r, RATE(click, title, 5) AS s", "RATE(click, title, 5) AS s", "one prior"),
        ("user, RATE(click, price) AS r", "RATE(click, price) AS r", "which is continuous"),
        ("age + 1 AS age, *", "age + 1 AS age", r"\* EXCEPT \(age\)"),
        ("user, agee + 1 AS a", "agee + 1 AS a", "reads agee, which the query does not return"),
        ("user, age + 1", "age + 1", "expression AS name"),
        ("upper(user)", "upper(user)", "expression AS name"),
        ("user, click + 1 AS click", "click + 1 AS click", "has a role"),
        ("user, upper(user) AS u, lower(user) AS u", "lower(user) AS u", "gives u twice"),
        ("user, QUANTILES(age) AS q", "QUANTILES(age)", r"takes \(x, number\)"),
        ("user, QUANTILES(age, 1) AS q", "QUANTILES(age, 1)", "a number of 2 to 1000"),
        ("user, MEAN(age - MIN(age)) AS q", "MEAN(age - MIN(age))", "has another constant inside"),
        ("user, age - MEAN(CAST(NULL AS INT)) AS q", "MEAN(CAST(NULL AS INT))", "is NULL"),
        ("user, uper(title) AS t", "uper", "uper"),
        ("user, age - MEAN(uper(title)) AS t", "uper", "uper"),
    ],
)
def test_a_list_that_cannot_be_evaluated_is_refused_with_its_place(
    session: xpsql.Session, items: str, place: str, words: str
) -> None:
    with pytest.raises(StatementError, match=words) as refused:
        session.sql(statement := f"TRAIN MODEL no USING xftrl LABEL click TRANSFORM ({items}) AS SELECT * FROM log")
    assert refused.value.position == (1, statement.index(place) + 1, place)
    assert not session.models.exists("no")


def test_a_query_without_a_column_of_the_list_says_which(session: xpsql.Session) -> None:
    lacking = "(SELECT user, category, price, age, title FROM log)"
    for text in (f"SELECT * FROM ML.PREDICT(MODEL ctr, {lacking})", f"SELECT * FROM ML.TRANSFORM(MODEL ctr, {lacking})"):
        with pytest.raises(StatementError, match="computes hour and reads ts for it"):
            session.sql(text)
    with pytest.raises(StatementError, match="computes hour and reads ts for it"):
        session.sql("CONTINUE MODEL ctr AS SELECT * EXCEPT (ts) FROM log")


@costly
def test_rate_offers_the_rates_of_one_slot(session: xpsql.Session) -> None:
    rated = "user, RATE(click, bucketize(price, QUANTILES(price, 3)), 5) AS band"
    session.sql(f"TRAIN MODEL rated USING xftrl LABEL click TRANSFORM ({rated}) AS SELECT * FROM log")
    bounds = rows(session, "SELECT quantile_bounds(price, 3) AS q FROM log")[0]["q"]
    by_hand = f"user, bucketize(price, array({', '.join(f'{bound!r}D' for bound in bounds)})) AS band, click"
    operator = "OPERATORS (auto_session (prior = 5, slots = (band)))"
    session.sql(f"TRAIN MODEL rated_by_hand USING xftrl LABEL click {operator} AS SELECT {by_hand} FROM log")
    session.sql("CONTINUE MODEL rated AS SELECT * FROM log WHERE price > 5")
    session.sql(f"CONTINUE MODEL rated_by_hand AS SELECT {by_hand} FROM log WHERE price > 5")
    weights = "SELECT slot, key, weight, offered FROM ML.WEIGHTS(MODEL {}) ORDER BY key"
    found = rows(session, weights.format("rated"))
    assert found == rows(session, weights.format("rated_by_hand"))
    offering = {row["slot"] for row in found if any(row["offered"])}
    assert offering == {"band"}, "others offer nothing"
    with pytest.raises(StatementError, match="offers the rates of all slots") as refused:
        session.sql(
            "TRAIN MODEL no USING xftrl LABEL click TRANSFORM (RATE(click, user) AS r) OPERATORS (auto_session) "
            "AS SELECT * FROM log"
        )
    assert refused.value.position is not None


@costly
def test_constants_are_of_some_rows_and_are_computed_anew_where_one_asks(session: xpsql.Session) -> None:
    ordered = "SELECT * FROM log ORDER BY id"
    text = "user, age - MAX(age) AS age"
    session.sql(f"TRAIN MODEL some USING xftrl LABEL click TRANSFORM ({text}) WITH (fit_rows = 10) AS {ordered}")
    reported = "SELECT value FROM ML.OPTIONS(MODEL some) WHERE option = 'age'"
    assert "27" in rows(session, reported)[0]["value"], "the tenth of them is 27"
    session.sql("CONTINUE MODEL some WITH (refit = true) AS SELECT * FROM log")
    assert "77" in rows(session, reported)[0]["value"]
    session.sql("CONTINUE MODEL some AS SELECT * FROM log WHERE age < 30")
    assert "77" in rows(session, reported)[0]["value"], "one continuation refits, not those after it"
    for wrong, words in (
        ("CONTINUE MODEL some WITH (fit_rows = 5) AS SELECT * FROM log", "fit_rows has no effect"),
        ("CONTINUE MODEL bare WITH (refit = true) AS SELECT user, click FROM log", "has none"),
        ("TRAIN MODEL no USING xftrl LABEL click WITH (refit = true) AS SELECT user, click FROM log", "refit is for CONTINUE"),
    ):
        session.sql("TRAIN OR REPLACE MODEL bare USING xftrl LABEL click AS SELECT user, click FROM log")
        with pytest.raises(StatementError, match=words) as refused:
            session.sql(wrong)
        assert refused.value.position is not None


def test_continue_refuses_another_list(session: xpsql.Session) -> None:
    with pytest.raises(StatementError, match="CONTINUE keeps the features of version 1") as refused:
        session.sql("CONTINUE MODEL ctr TRANSFORM (user) AS SELECT * FROM log")
    assert refused.value.position is not None
    assert refused.value.position.text == "TRANSFORM (user)"


def test_a_model_without_a_list_has_nothing_to_show(session: xpsql.Session) -> None:
    session.sql("TRAIN OR REPLACE MODEL bare USING xftrl LABEL click AS SELECT user, click FROM log")
    with pytest.raises(StatementError, match="has no TRANSFORM"):
        session.sql("SELECT * FROM ML.TRANSFORM(MODEL bare, TABLE log)")
