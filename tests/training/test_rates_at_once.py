"""Rates before each example where all examples are learned at once: auto_session in owlqn and xgboost."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

import xpsql
from tests.cases import costly, costly_after_first, lengthy
from xpsql.platform.errors import StatementError
from xpsql.platform.progress import SilentReporter

ROWS = """
SELECT concat('i', id * 7 % 30) AS item, concat('u', id % 9) AS user, CAST(id % 5 AS DOUBLE) AS price, id AS ts,
    CAST(pmod(xxhash64(id), 100) < IF((id * 7 % 30 + id DIV 500) % 3 = 0, 85, 15) AS INT) AS label FROM range({}, {})
"""
SESSION = "OPERATORS (auto_session (short = '20 examples', mid = '600 seconds', long = '2000 examples')) WITH (batch_size = 50)"
RATES = "SELECT slot, key, count, offered FROM ML.WEIGHTS(MODEL {}) WHERE slot IN ('item', 'user') ORDER BY slot, key"
USES = {"owlqn": "owlqn (iterations = 20)", "xgboost": "xgboost (rounds = 20)"}


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[xpsql.Session]:
    with xpsql.connect(tmp_path_factory.mktemp("warehouse"), reporter=SilentReporter()) as session:
        session.sql(f"CREATE TABLE log AS {ROWS.format(0, 4000)}")
        session.sql(f"CREATE TABLE later AS {ROWS.format(4000, 4500)}")
        session.sql(f"TRAIN MODEL online USING xftrl TIME ts {SESSION} AS SELECT * FROM log")
        session.sql("CONTINUE MODEL online AS SELECT * FROM later")
        for name, use in USES.items():
            session.sql(f"TRAIN MODEL {name} USING {use} TIME ts {SESSION} AS SELECT * FROM log")
        yield session


@lengthy
@costly_after_first
@pytest.mark.parametrize("name", USES)
def test_rates_are_those_of_learning_batch_by_batch_and_go_on_with_the_version(session: xpsql.Session, name: str) -> None:
    expected, found = (session.sql(RATES.format(model)).arrow().to_pylist() for model in ("online VERSION 1", name))
    assert found == expected
    assert len(found) == 39
    session.sql(f"TRAIN OR REPLACE MODEL {name} USING {USES[name]} TIME ts {SESSION} AS SELECT * FROM log")
    session.sql(f"CONTINUE MODEL {name} AS SELECT * FROM later")
    expected, found = (session.sql(RATES.format(model)).arrow().to_pylist() for model in ("online", name))
    assert found == expected


@costly
@pytest.mark.parametrize("name", USES)
def test_what_rates_know_of_late_is_used_in_predictions(session: xpsql.Session, name: str) -> None:
    """Which items are clicked changes every 500 rows, so that weights of items know nothing, and rates of late do."""
    plain = USES[name]
    session.sql(f"TRAIN OR REPLACE MODEL plain USING {plain} IGNORE (ts) AS SELECT * FROM log")
    session.sql(f"TRAIN OR REPLACE MODEL rated USING {plain} TIME ts {SESSION} AS SELECT * FROM log")
    soon = ROWS.format(4000, 4001).replace("FROM range(4000, 4001)", "FROM range(3600, 4000)")
    auc = {
        model: session.sql(f"SELECT auc FROM ML.EVALUATE(MODEL {model}, ({soon}))").arrow()["auc"][0].as_py()
        for model in ("plain", "rated")
    }
    assert auc["rated"] > auc["plain"] + 0.1
    slots = session.sql("SELECT slot FROM ML.FEATURE_IMPORTANCE(MODEL rated)").arrow()["slot"].to_pylist()
    assert "item:ctr_short" in slots
    call = f"ML.EXPLAIN_PREDICT(MODEL rated, ({soon} LIMIT 1), 20, BASELINE ({soon}))"
    (row,) = session.sql(f"SELECT * FROM {call}").arrow().to_pylist()
    assert {"item", "item:ctr_short"} <= {one["feature"] for one in row["top_feature_attributions"]}


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        (f"owlqn IGNORE (ts) {SESSION}", "has a part that needs event times"),
        ("xgboost TIME ts OPERATORS (auto_session, safety)", "Operator safety changes updates batch by batch"),
        ("word2vec IGNORE (label, user, price, ts) OPERATORS (auto_session)", "word2vec"),
    ],
)
def test_what_rates_cannot_be_had_by_is_refused(session: xpsql.Session, statement: str, words: str) -> None:
    with pytest.raises(StatementError, match=words):
        session.sql(f"TRAIN MODEL no USING {statement} AS SELECT * FROM log")


@costly
@pytest.mark.parametrize("name", USES)
def test_one_worker_on_spark_counts_the_same_rates(session: xpsql.Session, spark: SparkSession, name: str) -> None:
    expected = session.sql(RATES.format("online VERSION 1")).arrow().to_pylist()
    with xpsql.connect(session.models.warehouse, spark, SilentReporter()) as other:
        train = f"TRAIN MODEL spark_{name} USING {USES[name]} TIME ts {SESSION} AS SELECT * FROM log"
        with pytest.raises(StatementError, match="one worker counts them"):
            other.sql(train.replace("batch_size = 50", "batch_size = 50, workers = 2"))
        other.sql(train)
        assert other.sql(RATES.format(f"spark_{name}")).arrow().to_pylist() == expected
