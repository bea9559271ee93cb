"""The intercept of a new model begins at the mean of the labels."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import xpsql
from tests.cases import costly, costly_after_first, lengthy
from tests.training.log import write
from xpsql.platform.errors import DataError, StatementError
from xpsql.platform.training.preparation import baseline

ROWS = 4000
STILL = "alpha = 1e-6"  # so that the intercept stays where it begins
ADAM = "adam (learning_rate = 1e-6)"


@pytest.fixture
def log(tmp_path: Path) -> str:
    """A log whose label is 1 in a hundredth of its rows, half of the examples by weight."""
    random = np.random.default_rng(0)
    label = np.arange(ROWS) % 100 == 0
    data = {"label": label, "other": ~label, "n": random.integers(0, 5, ROWS), "price": random.normal(20, 1, ROWS)}
    table = pa.table({**data, "importance": np.where(label, 99.0, 1.0)})
    return f"parquet.`{write(table, tmp_path / 'log.parquet', row_group_rows=400)}`"


def log_odds(rate: float) -> float:
    return math.log(rate / (1 - rate))


def intercept(session: xpsql.Session, statement: str) -> list[float]:
    """Train and return the weights of the intercept."""
    session.sql(f"TRAIN OR REPLACE MODEL m USING {statement}")
    rows = session.sql("SELECT * FROM ML.WEIGHTS(MODEL m) WHERE slot = '(intercept)'").arrow().to_pylist()
    (row,) = (row for row in rows if row.get("table", "weights") == "weights")
    return [row["weight"]] if "weight" in row else list(row["weights"])


SMOOTHED = (ROWS / 100 + 1) / (ROWS + 2)


@costly_after_first
@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        (f"xftrl ({STILL}) AS SELECT label, n FROM", [log_odds(SMOOTHED)]),
        (f"xftrl ({STILL}) WITH (shards = 3, workers = 2) AS SELECT label, n FROM", [log_odds(SMOOTHED)]),
        (f"xftrl ({STILL}) WITH (base_rate = 0.2) AS SELECT label, n FROM", [log_odds(0.2)]),
        (f"xftrl ({STILL}) WITH (base_rate = 0.5) AS SELECT label, n FROM", [0.0]),
        (f"xftrl ({STILL}, l1 = 1, l2 = 1) WITH (base_rate = 0.2) AS SELECT label, n FROM", [log_odds(0.2)]),
        (f"xftrl ({STILL}) LABEL label, other AS SELECT label, other, n FROM", [log_odds(SMOOTHED), -log_odds(SMOOTHED)]),
        (f"xftrl ({STILL}) WEIGHT importance AS SELECT label, importance, n FROM", [log_odds(0.5)]),
        (f"xftrl ({STILL}, positive_weight = 3) WITH (base_rate = 0.25) AS SELECT label, n FROM", [log_odds(0.5)]),
        (f"xftrl ({STILL}, loss = 'focal') WITH (base_rate = 0.2) AS SELECT label, n FROM", [log_odds(0.2)]),
        (f"xftrl ({STILL}, loss = 'squared') LABEL price AS SELECT price, n FROM", [0.0]),
        (f"xftrl ({STILL}, loss = 'hinge') AS SELECT label, n FROM", [0.0]),
        (f"ffm ({STILL}) AS SELECT label, n FROM", [log_odds(SMOOTHED)]),
        (f"fm ({STILL}) AS SELECT label, n FROM", [log_odds(SMOOTHED)]),
        (f"fm ({STILL}) AS SELECT n = 0 AS label, n FROM", [0.0]),
        (f"fm ({STILL}) WITH (base_rate = 0.2) AS SELECT label, n FROM", [log_odds(0.2)]),
        (f"xnn ({STILL}) AS SELECT label, n FROM", [log_odds(SMOOTHED)]),
        (f"xnn ({STILL}) LABEL label, odd AS SELECT label, n % 2 = 1 AS odd, n FROM", [log_odds(SMOOTHED), 0.0]),
        (f"xnn ({STILL}) WITH (base_rate = 0.2) AS SELECT label, n FROM", [log_odds(0.2)]),
        ("logistic_regression (learning_rate = 1e-6) WITH (base_rate = 0.2) AS SELECT label, n FROM", [log_odds(0.2)]),
        (
            "logistic_regression OPERATORS (adam (learning_rate = 1e-6)) WITH (base_rate = 0.2) AS SELECT label, n FROM",
            [log_odds(0.2)],
        ),
    ],
)
def test_a_new_model_begins_with_the_best_score_that_knows_only_the_mean(
    session: xpsql.Session, log: str, statement: str, expected: list[float]
) -> None:
    assert intercept(session, f"{statement} {log}") == pytest.approx(expected, rel=0.01, abs=1e-3)


def test_the_mean_is_that_of_the_rows_that_filters_leave(session: xpsql.Session, log: str) -> None:
    (weight,) = intercept(session, f"xftrl ({STILL}) AS SELECT label, n FROM {log} WHERE label OR n = 1")
    rows, clicks = session.sql(f"SELECT count(*) AS n, count_if(label) AS k FROM {log} WHERE label OR n = 1").arrow().columns
    assert weight == pytest.approx(log_odds(clicks[0].as_py() / rows[0].as_py()), rel=0.05)


def test_the_mean_is_judged_by_some_splits_all_over_the_input(
    session: xpsql.Session, log: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(baseline, "SPLITS", 2)  # the first and the sixth
    monkeypatch.setattr(baseline, "ROWS", 50)  # of which the first is a click
    assert intercept(session, f"xftrl ({STILL}) AS SELECT label, n FROM {log}") == pytest.approx([log_odds(3 / 102)], rel=0.01)


def test_a_version_that_continues_goes_on_with_the_intercept_that_it_has(session: xpsql.Session, log: str) -> None:
    (before,) = intercept(session, f"xftrl ({STILL}) WITH (base_rate = 0.2) AS SELECT label, n FROM {log}")
    session.sql(f"CONTINUE MODEL m AS SELECT other AS label, n FROM {log}")
    (row,) = session.sql("SELECT weight, count FROM ML.WEIGHTS(MODEL m) WHERE slot = '(intercept)'").arrow().to_pylist()
    assert row == {"weight": pytest.approx(before, abs=1e-3), "count": 2 * ROWS}


@lengthy
@costly_after_first
@pytest.mark.parametrize("algorithm", ["xftrl", "fm", "owlqn"])
def test_a_version_that_goes_on_without_an_intercept_has_no_row_of_it(session: xpsql.Session, log: str, algorithm: str) -> None:
    session.sql(f"TRAIN MODEL m USING {algorithm} AS SELECT label, n FROM {log}")
    session.sql("SHRINK MODEL m WHERE slot = 'n'")
    for version in (1, 2):
        use = f"FROM VERSION {version} USING {algorithm} (intercept = false)"
        session.sql(f"CONTINUE MODEL m {use} AS SELECT label, n FROM {log}")
        rows = session.sql("SELECT DISTINCT slot FROM ML.WEIGHTS(MODEL m)").arrow().to_pylist()
        assert rows == [{"slot": "n"}]


def test_a_continue_takes_no_base_rate_and_none_from_its_version(session: xpsql.Session, log: str) -> None:
    session.sql(f"TRAIN MODEL m USING xftrl WITH (base_rate = 0.3) AS SELECT label, n FROM {log}")
    with pytest.raises(StatementError, match="WITH base_rate has no effect: CONTINUE keeps the intercept") as caught:
        session.sql(f"CONTINUE MODEL m WITH (base_rate = 0.5) AS SELECT label, n FROM {log}")
    assert caught.value.position is not None
    assert caught.value.position.text == "base_rate = 0.5"
    session.sql(f"CONTINUE MODEL m USING xftrl (intercept = false) AS SELECT label, n FROM {log}")


@costly
def test_the_intercept_is_admitted_at_once_and_does_not_expire(session: xpsql.Session, log: str) -> None:
    life = "admit (min_count = 1000), expire (after = '1 day'), expire (utility < 100, grace = 0)"
    intercept(session, f"xftrl ({STILL}) TIME ts OPERATORS ({life}) AS SELECT label, n, 0 AS ts FROM {log}")
    session.sql(f"CONTINUE MODEL m AS SELECT label, n, 1000000 AS ts FROM {log}")
    rows = session.sql("SELECT slot, weight, count FROM ML.WEIGHTS(MODEL m)").arrow().to_pylist()
    assert rows == [{"slot": "(intercept)", "weight": pytest.approx(log_odds(SMOOTHED), rel=0.01), "count": 2 * ROWS}]


def test_features_of_rare_labels_are_not_taught_what_is_true_of_all_examples(session: xpsql.Session, log: str) -> None:
    def logloss(settings: str) -> float:
        statement = f"TRAIN OR REPLACE MODEL m USING xftrl (alpha = 0.1) WITH ({settings}) AS SELECT label, n, price FROM {log}"
        return float(session.sql(statement).arrow()["logloss"][0].as_py())

    assert logloss("passes = 1") < 0.5 * logloss("base_rate = 0.5")


@pytest.mark.parametrize(
    ("use", "message"),
    [
        ("xftrl WITH (base_rate = 0)", "base_rate = 0 must be between 0 and 1"),
        ("xftrl WITH (base_rate = 1.5)", "base_rate = 1.5 must be between 0 and 1"),
        ("xftrl (intercept = false) WITH (base_rate = 0.1)", "base_rate = 0.1 has no effect"),
        ("svm WITH (base_rate = 0.1)", "has no effect: svm does not begin at the mean of the labels"),
        ("owlqn WITH (base_rate = 0.1)", "has no effect: owlqn does not begin at the mean of the labels"),
    ],
)
def test_a_base_rate_that_means_nothing_is_an_error(session: xpsql.Session, log: str, use: str, message: str) -> None:
    for explain in ("", "EXPLAIN "):
        with pytest.raises(StatementError, match=message):
            session.sql(f"{explain}TRAIN MODEL m USING {use} AS SELECT label, n FROM {log}")
    assert session.sql("SHOW MODELS").arrow().num_rows == 0


@pytest.mark.parametrize("bad", ["label, double('Infinity') AS importance", "double('Infinity') AS label, importance"])
def test_an_infinite_label_or_weight_is_reported_with_its_row_alone(session: xpsql.Session, log: str, bad: str) -> None:
    with pytest.raises(DataError, match="has inf"):
        session.sql(f"TRAIN MODEL m USING xftrl WEIGHT importance AS SELECT {bad}, n FROM {log}")
