"""Requests for models with TRANSFORM or CROSS are computed without an engine, and have the bits of ML.PREDICT."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import xpsql
from tests.cases import costly, costly_after_first, lengthy, quick
from tests.serving.conftest import LOG, Client, failing, loaded_of
from xpsql.platform.errors import ModelError
from xpsql.platform.progress import SilentReporter
from xpsql.platform.serving.computed.request_features import real_of
from xpsql.platform.serving.http import Service
from xpsql.platform.serving.instances import of_rows
from xpsql.platform.serving.loaded import Loaded
from xpsql.platform.serving.refusal import RequestLimits
from xpsql.platform.serving.request_log import RequestLog
from xpsql.platform.serving.served import Served

TRANSFORM = """TRANSFORM (
    bucketize(price, QUANTILES(price, 4)) AS price, cross(user, ad) AS user_ad, hour(ts) AS hour, dayofweek(ts) AS weekday,
    (age - MEAN(age)) / STDDEV(age) AS age, clip(log1p(price), 0, 2) AS capped,
    CASE WHEN mobile THEN 'm' ELSE 'd' END AS device,
    coalesce(lower(user), 'none') AS user, ngrams(split(title, ' '), 1, 2) AS runs, age * 0.25 AS quarter, to_date(ts) AS day,
    * EXCEPT (price, age, mobile, ts, title, user, day))"""
ALL = f"""SELECT *, CAST(18 + id % 60 AS INT) AS age, concat('Red', id % 3, ' Car') AS title,
    timestamp_seconds(1700000000 + id * 4000) AS ts FROM ({LOG})"""
MODELS = {
    "lists": f"xftrl LABEL click IGNORE (id) {TRANSFORM}",
    "both": f"xftrl LABEL click IGNORE (id) {TRANSFORM} CROSS (user_ad * device, user * runs)",
    "crossed": "xftrl LABEL click IGNORE (id, ts) CROSS (user * ad, user * day * mobile, ad * tags, mobile * words)",
    "absent": "fm (dim = 3) LABEL click IGNORE (id, ts) CROSS (user * ad, tags * user) WITH (nulls = 'absent')",
    "network": f"xnn (hidden = 4, dim = 2) LABEL click IGNORE (id) {TRANSFORM} CROSS (user * device)",
}


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[xpsql.Session]:
    with xpsql.connect(tmp_path_factory.mktemp("warehouse"), reporter=SilentReporter()) as session:
        session.sql(f"CREATE TABLE log AS {ALL}")
        yield session


@pytest.fixture(scope="module", params=quick(MODELS, ("both", "absent", "network")))
def loaded(request: pytest.FixtureRequest, session: xpsql.Session) -> Loaded:
    return trained(session, request.param)


def trained(session: xpsql.Session, name: str) -> Loaded:
    try:
        session.models.version(name)
    except ModelError:
        session.sql(f"TRAIN MODEL {name} USING {MODELS[name]} AS SELECT * FROM log")
    return loaded_of(session.models.version(name))


def rows_of(session: xpsql.Session, count: int) -> list[dict[str, Any]]:
    """Return rows as a client writes them."""
    table = session.sql(f"SELECT * FROM log WHERE id < {count} ORDER BY id").arrow().drop_columns(["id", "click"])
    rows = table.to_pylist()
    for row in rows:
        row |= {"day": str(row["day"]), "ts": row["ts"].strftime("%Y-%m-%d %H:%M:%S"), "words": dict(row["words"])}
    return rows


def predicted(session: xpsql.Session, loaded: Loaded, count: int) -> list[float]:
    query = f"SELECT * FROM ML.PREDICT(MODEL {loaded.model}, (SELECT * FROM log WHERE id < {count})) ORDER BY id"
    return session.sql(query).arrow().column("predicted_click").to_pylist()


def values(found: dict[str, pa.Array] | None) -> list[float]:
    assert found is not None, "an engine was asked"
    return found["predicted_click"].to_pylist()


def inputs_of(loaded: Loaded, row: dict[str, Any]) -> dict[str, Any]:
    return {column.name: row[column.name] for column in loaded.inputs}


@costly_after_first
@pytest.mark.parametrize("count", [1, 40])
def test_rows_of_json_have_the_bits_of_ml_predict(session: xpsql.Session, loaded: Loaded, count: int) -> None:
    assert loaded.by_table is None
    rows = [inputs_of(loaded, row) for row in rows_of(session, count)]
    assert values(loaded.predict_objects(rows, None)) == predicted(session, loaded, count)


@lengthy
def test_replaying_what_was_served_finds_no_difference(session: xpsql.Session, loaded: Loaded, tmp_path: Path) -> None:
    log = RequestLog(tmp_path / "served", 1.0, print)
    log.start()
    client = Client(Service(Served(session.models, [loaded.model], None, print), RequestLimits(), None, log, failing))
    rows = [inputs_of(loaded, row) for row in rows_of(session, 40)]
    rows[3]["user"] = 7  # which the engine casts
    for at in range(0, 40, 8):
        client.predict({"instances": rows[at : at + 8]}, loaded.model)
    log.stop()
    served = f"TABLE parquet.`{tmp_path}/served/served_model={loaded.model}`"
    replayed = session.sql(f"SELECT * FROM ML.REPLAY(MODEL {loaded.model}, {served})").arrow().to_pylist()
    assert len(replayed) == 40
    exact = loaded.model != "network"  # whose batches have other sizes offline
    assert max(row["difference"] for row in replayed) <= (0 if exact else 1e-6)
    assert all(row["keys_missing"] == row["keys_extra"] == row["slots_that_differ"] == [] for row in replayed)


@lengthy
def test_rows_of_arrow_have_the_same_bits(session: xpsql.Session, loaded: Loaded) -> None:
    rows = [inputs_of(loaded, row) for row in rows_of(session, 40)]
    assert values(loaded.predict(of_rows(rows, {}, loaded.inputs))) == predicted(session, loaded, 40)


def test_nulls_are_computed_as_the_engine_does(session: xpsql.Session, loaded: Loaded) -> None:
    row = inputs_of(loaded, rows_of(session, 1)[0])
    rows = [{**row, name: None} for name in row]
    table = of_rows(rows, {}, loaded.inputs)
    by_table = loaded._scorer.scored(loaded.features(table)).columns[0].to_pylist()
    assert values(loaded.predict_objects(rows, None)) == by_table


@pytest.mark.parametrize("shared", [["user"], ["user", "ad"], ["price", "age", "mobile"], ["tags", "words"]])
def test_what_candidates_have_in_common_is_computed_alike(session: xpsql.Session, loaded: Loaded, shared: list[str]) -> None:
    rows = [inputs_of(loaded, row) for row in rows_of(session, 12)]
    context = {name: rows[0][name] for name in shared if name in rows[0]}
    candidates = [{name: value for name, value in row.items() if name not in context} for row in rows]
    whole = values(loaded.predict_objects([{**row, **context} for row in candidates], None))
    assert values(loaded.predict_objects(candidates, context)) == whole


@costly
def test_values_in_another_types_way_are_left_to_the_engine(session: xpsql.Session) -> None:
    loaded, row = trained(session, "lists"), rows_of(session, 1)[0]
    for other in ({"age": "18"}, {"price": "1.5"}, {"title": 3}, {"age": 2**40}):
        assert loaded.predict_objects([inputs_of(loaded, {**row, **other})], None) is None
    assert loaded.predict_objects([{name: value for name, value in row.items() if name != "age"}], None) is None
    assert loaded.predict_objects([row], {"age": 3}) is None


def test_a_combination_that_a_row_has_twice_is_left_to_the_engine(session: xpsql.Session) -> None:
    session.sql("TRAIN MODEL twice USING xftrl LABEL click CROSS (tags * words) AS SELECT click, tags, words FROM log")
    loaded = loaded_of(session.models.version("twice"))
    assert loaded.predict_objects([{"tags": ["a", "b"], "words": {"w": 1.5}}], None) is not None
    assert loaded.predict_objects([{"tags": ["a", "a"], "words": {"w": 1.5}}], None) is None


@given(st.integers(-(2**53) + 1, 2**53 - 1), st.integers(0, 22))
def test_decimals_become_the_doubles_that_arrow_makes(digits: int, scale: int) -> None:
    kind = pa.decimal128(38, scale)
    arrow = pa.array([Decimal(digits).scaleb(-scale)], kind).cast(pa.float64())
    assert real_of(kind)(digits) == arrow[0].as_py()


@lengthy
def test_a_model_that_needs_the_engine_says_which_expression_and_what_it_costs(session: xpsql.Session) -> None:
    session.sql(
        "TRAIN MODEL odd USING xftrl LABEL click TRANSFORM (regexp_replace(user, 'u', 'v') AS who) "
        "AS SELECT click, user FROM log"
    )
    said: list[str] = []
    served = Served(session.models, ["odd", trained(session, "lists").model], None, said.append)
    served.start()
    served.stop()
    assert len(said) == 1
    assert "odd v1 is scored by way of a table" in said[0]
    assert "ms a request" in said[0]
    assert "TRANSFORM's who has REGEXP_REPLACE(user, 'u', 'v')" in said[0]


@costly
def test_arrays_of_numbers_as_bounds_are_no_feature(session: xpsql.Session) -> None:
    session.sql(
        "TRAIN MODEL constant USING xftrl LABEL click TRANSFORM (array(age, 2) AS ages, user) "
        "AS SELECT click, user, age FROM log"
    )
    found = loaded_of(session.models.version("constant")).by_table
    assert found is not None
    assert "ages" in found
