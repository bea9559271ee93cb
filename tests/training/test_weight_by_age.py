"""WEIGHT BY AGE: examples weigh less the older they are."""

from __future__ import annotations

from pathlib import Path

import pytest

import xpsql
from tests.cases import costly, costly_after_first, lengthy
from tests.training.log import session, write
from xpsql.platform.errors import OptionError, StatementError
from xpsql.platform.progress import SilentReporter
from xpsql.platform.training.clauses.weight import WEIGHT

__all__ = ["session"]

DAY = 86_400
BASE = 1_700_000_000
LOG = f"""SELECT CAST(id % 3 = 0 AS INT) AS click, CAST(id % 5 AS STRING) AS x, CAST(1 + id % 4 AS DOUBLE) AS w,
CASE WHEN id % 10 = 9 THEN NULL ELSE {BASE} + id * 3600 END AS ts FROM range(400) ORDER BY id"""
NEWEST = BASE + 398 * 3600
BY_HAND = f"(CASE WHEN ts IS NULL THEN 1D ELSE power(2D, -({NEWEST} - ts) / ({DAY} * 2D)) END)"
TRAIN = (
    "TRAIN MODEL {name} USING xftrl LABEL click {weight} TIME ts WITH (workers = 1, batch_size = 400, passes = 2) AS {query}"
)


def weights(session: xpsql.Session, name: str) -> list[dict[str, object]]:
    return session.sql(f"SELECT key, weight FROM ML.WEIGHTS(MODEL {name}) ORDER BY key").arrow().to_pylist()


def equal(session: xpsql.Session, one: str, other: str) -> None:
    found, wanted = weights(session, one), weights(session, other)
    assert len(found) > 4
    assert [row["key"] for row in found] == [row["key"] for row in wanted]
    assert [row["weight"] for row in found] == pytest.approx([row["weight"] for row in wanted], rel=1e-4, abs=1e-6)


@lengthy
@costly_after_first
def test_age_and_column_weigh_as_their_product_computed_by_hand_does(session: xpsql.Session, tmp_path: Path) -> None:
    with xpsql.connect(tmp_path / "made", "duckdb", SilentReporter()) as maker:
        rows = maker.sql(LOG).arrow()
    session.sql(f"CREATE TEMPORARY VIEW log AS SELECT * FROM parquet.`{write(rows, tmp_path / 'log.parquet')}`")
    both = f"SELECT click, x, w * {BY_HAND} AS w, ts FROM log"
    session.sql(TRAIN.format(name="a", weight="WEIGHT w BY AGE (half_life = '2 days')", query="SELECT * FROM log"))
    session.sql(TRAIN.format(name="b", weight="WEIGHT w", query=both))
    session.sql(TRAIN.format(name="plain", weight="WEIGHT w", query="SELECT * FROM log"))
    equal(session, "a", "b")
    assert weights(session, "a") != weights(session, "plain")
    manifest = session.models.version("a").manifest
    assert WEIGHT.kept(manifest).newest == NEWEST
    assert manifest.metrics["logloss"] == pytest.approx(session.models.version("b").manifest.metrics["logloss"], rel=1e-4)
    described = {row["property"]: row["value"] for row in session.sql("DESCRIBE MODEL a").arrow().to_pylist()}
    assert described["weight"] == "w BY AGE (half_life = '2 days')"

    alone = f"SELECT click, x, {BY_HAND} AS w, ts FROM log"
    session.sql(TRAIN.format(name="c", weight="WEIGHT BY AGE (half_life = '2 days')", query="SELECT click, x, ts FROM log"))
    session.sql(TRAIN.format(name="d", weight="WEIGHT w", query=alone))
    equal(session, "c", "d")
    evaluated = session.sql("SELECT examples, logloss FROM ML.EVALUATE(MODEL c, TABLE log)").arrow().to_pylist()
    assert evaluated[0]["examples"] == 400

    explained = session.sql(f"EXPLAIN {TRAIN.format(name='e', weight='WEIGHT BY AGE', query='SELECT * FROM log')}").arrow()
    assert {"property": "weight", "value": "BY AGE (half_life = '7 days')"} in explained.to_pylist()

    session.sql(f"CREATE TEMPORARY VIEW later AS SELECT click, x, w, ts + {30 * DAY} AS ts FROM log")
    session.sql("CONTINUE MODEL c WITH (workers = 1) VALIDATE ON (SELECT * FROM log) AS SELECT click, x, ts FROM later")
    continued = WEIGHT.kept(session.models.version("c").manifest)
    assert (continued.half_life, continued.newest) == ("2 days", NEWEST + 30 * DAY)


@costly
def test_a_stream_counts_ages_from_the_newest_row_of_its_segment(tmp_path: Path) -> None:
    with xpsql.connect(tmp_path / "w", "duckdb", SilentReporter()) as session:
        session.sql(f"CREATE TABLE log AS {LOG}")
        rest = "WITH (until = 'available', workers = 1, batch_size = 400) AS SELECT * FROM STREAM log"
        session.sql(f"TRAIN MODEL s USING xftrl LABEL click WEIGHT w BY AGE (half_life = '2 days') TIME ts {rest}")
        train = TRAIN.replace("passes = 2", "passes = 1")
        session.sql(train.format(name="t", weight="WEIGHT w BY AGE (half_life = '2 days')", query="SELECT * FROM log"))
        equal(session, "s", "t")
        session.sql(f"INSERT INTO log SELECT click, x, w, ts + {DAY} AS ts FROM ({LOG})")
        session.sql(f"CONTINUE MODEL s {rest}")
        assert WEIGHT.kept(session.models.version("s").manifest).newest == NEWEST + DAY


@pytest.mark.parametrize(
    ("clauses", "error", "message"),
    [
        ("WEIGHT BY AGE", StatementError, "Name their column with TIME, or leave BY AGE out"),
        ("WEIGHT w BY AGE (half_life = '0 days') TIME ts", OptionError, "a positive number and a unit"),
        ("WEIGHT w BY AGE (halflife = '1 day') TIME ts", OptionError, "half_life"),
        ("WEIGHT nothing BY AGE TIME ts", StatementError, "which the query does not return"),
        ("WEIGHT x BY AGE TIME ts", StatementError, "WEIGHT"),
        ("WEIGHT BY AGE TIME nothing", StatementError, "TIME names 'nothing'"),
    ],
)
def test_what_has_no_meaning_is_refused_at_the_clause(
    tmp_path: Path, clauses: str, error: type[Exception], message: str
) -> None:
    with xpsql.connect(tmp_path / "w", "duckdb", SilentReporter()) as session:
        session.sql(f"CREATE TABLE log AS {LOG}")
        for explain in ("", "EXPLAIN "):
            with pytest.raises(error, match=message) as raised:
                session.sql(f"{explain}TRAIN MODEL m USING xftrl LABEL click {clauses} AS SELECT * FROM log")
            assert isinstance(raised.value, StatementError)
            assert raised.value.position is not None


def test_a_resident_training_knows_no_newest_row(tmp_path: Path) -> None:
    with xpsql.connect(tmp_path / "w", "duckdb", SilentReporter()) as session:
        session.sql(f"CREATE TABLE log AS {LOG}")
        clauses = "LABEL click WEIGHT BY AGE TIME ts PUBLISH EVERY 1 SECOND"
        with pytest.raises(StatementError, match="learns rows while newer ones arrive"):
            session.sql(f"TRAIN MODEL m USING xftrl {clauses} AS SELECT * FROM STREAM log")
