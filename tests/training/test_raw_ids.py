"""Ready-made ids that are keys: WITH (raw = ...)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

import xpsql
from tests.cases import costly, lengthy
from xpsql.platform.errors import StatementError
from xpsql.platform.progress import SilentReporter

ROWS = """
SELECT IF(id % 17 = 0, NULL, id % 50) AS user_id, 100 + id * 7 % 30 AS item_id, array(200 + id % 3, 210 + id % 5) AS tags,
    concat('c', id % 4) AS city, CAST(pmod(xxhash64(id), 100) < 10 + id % 50 + id * 7 % 30 AS INT) AS label FROM range({}, {})
"""
RAW = "WITH (raw = (user_id, item_id, tags), batch_size = 64)"
LISTED = "SELECT slot, key, round(weight, 4) AS weight, count FROM"


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[xpsql.Session]:
    with xpsql.connect(tmp_path_factory.mktemp("warehouse"), reporter=SilentReporter()) as session:
        session.sql(f"CREATE TABLE log AS {ROWS.format(0, 2000)}")
        session.sql(f"CREATE TABLE later AS {ROWS.format(2000, 3000)}")
        session.sql(f"TRAIN MODEL m USING xftrl {RAW} AS SELECT * FROM log")
        yield session


@lengthy
def test_ids_are_the_keys_of_weights_and_exports_and_learn_as_hashed_ones_do(session: xpsql.Session) -> None:
    session.sql(f"TRAIN MODEL hashed USING xftrl {RAW.replace('raw', 'hashed')} AS SELECT * FROM log")
    for number, model in enumerate(("m", "hashed")):
        session.sql(f"CONTINUE MODEL {model} AS SELECT * FROM later")
        session.sql(f"CREATE TABLE weights{number} AS SELECT * FROM ML.WEIGHTS(MODEL {model})")
    session.sql("EXPORT MODEL m TO TABLE exported")
    raw = session.sql(f"{LISTED} exported WHERE slot = 'user_id' ORDER BY key").arrow().to_pylist()
    assert raw == session.sql(f"{LISTED} weights0 WHERE slot = 'user_id' ORDER BY key").arrow().to_pylist()
    null = session.sql("SELECT xxhash64('user_id') AS key").arrow()["key"][0].as_py()
    assert {row["key"] for row in raw} == {*range(50), null}
    joined = """
        SELECT count(*) AS n, max(abs(r.weight - h.weight)) AS most, min(r.count = h.count) AS equal FROM weights0 r
        JOIN weights1 h ON r.slot = h.slot
            AND h.key = CASE WHEN r.slot IN ('user_id', 'item_id', 'tags') AND r.key < 1000 AND r.key >= 0
                        THEN xxhash64(r.slot, r.key) ELSE r.key END
    """
    (found,) = session.sql(joined).arrow().to_pylist()
    assert found == {"n": 1 + 51 + 30 + 8 + 4, "most": pytest.approx(0, abs=1e-6), "equal": True}
    scores = [
        session.sql(f"SELECT predicted_label AS p FROM ML.PREDICT(MODEL {model}, TABLE later) ORDER BY p")
        .arrow()["p"]
        .to_pylist()
        for model in ("m", "hashed")
    ]
    assert scores[0] == pytest.approx(scores[1], abs=1e-6)


@costly
def test_the_nearest_features_are_named_by_their_ids(session: xpsql.Session) -> None:
    session.sql(f"TRAIN MODEL pairs USING fm (dim = 4) {RAW} AS SELECT * FROM log")
    near = session.sql("SELECT key FROM ML.NEAREST(MODEL pairs, item_id, 107, 29)").arrow()["key"].to_pylist()
    assert sorted(near) == [key for key in range(100, 130) if key != 107]
    with pytest.raises(StatementError, match="holds ready-made ids"):
        session.sql("SELECT * FROM ML.NEAREST(MODEL pairs, item_id, '107', 3)")


def test_a_slot_that_is_continued_keeps_its_keys(session: xpsql.Session) -> None:
    with pytest.raises(StatementError, match=r"Slot user_id is categorical \(bigint\) and was categorical \(bigint, raw\)"):
        session.sql("CONTINUE MODEL m WITH (raw = (item_id, tags)) AS SELECT * FROM log")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ("raw = (city)", "raw expects a BIGINT or array<bigint> column; city is string"),
        ("raw = (user_id), hashed = (user_id)", "raw and hashed name user_id"),
        ("raw = (label)", "raw names 'label', which is no slot"),
        ("raw = (nobody)", "raw names 'nobody', which the query does not return"),
    ],
)
def test_what_holds_no_ids_is_refused(session: xpsql.Session, settings: str, words: str) -> None:
    with pytest.raises(StatementError, match=words) as refused:
        session.sql(f"TRAIN MODEL no USING xftrl WITH ({settings}) AS SELECT * FROM log")
    assert refused.value.position is not None


@costly
def test_spark_shows_the_same_keys(session: xpsql.Session, spark: SparkSession) -> None:
    weights = "SELECT slot, key, count FROM ML.WEIGHTS(MODEL m VERSION 1) ORDER BY slot, key"
    expected = session.sql(weights).arrow().to_pylist()
    with xpsql.connect(session.models.warehouse, spark, SilentReporter()) as other:
        assert other.sql(weights).arrow().to_pylist() == expected
