"""Scoring of queries whose filters leave nothing of some pieces of their input, or of all of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import xpsql
from xpsql.platform.progress import SilentReporter
from xpsql.platform.scoring.kept import scorer_of
from xpsql.platform.scoring.weights import Weights

NUMBERS = (
    "SELECT CAST(id AS INT) AS id, CAST(id % 2 AS INT) AS label, CAST(id % 7 AS STRING) AS x FROM range(200000) ORDER BY id"
)


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[xpsql.Session]:
    folder: Path = tmp_path_factory.mktemp("warehouse")
    with xpsql.connect(folder, reporter=SilentReporter()) as session:
        session.sql(f"CREATE TABLE numbers AS {NUMBERS}")
        session.sql("TRAIN MODEL m USING xftrl IGNORE (id) AS SELECT * FROM numbers WHERE id < 20000")
        yield session


def test_pieces_without_rows_are_passed_over(session: xpsql.Session) -> None:
    found = session.sql(
        "SELECT id, predicted_label FROM ML.PREDICT(MODEL m, (SELECT * FROM numbers WHERE id >= 199990))"
    ).arrow()
    assert found.column("id").to_pylist() == list(range(199_990, 200_000))
    (row,) = (
        session.sql("SELECT examples FROM ML.EVALUATE(MODEL m, (SELECT * FROM numbers WHERE id >= 199990))").arrow().to_pylist()
    )
    assert row == {"examples": 10}


def test_no_rows_give_no_predictions(session: xpsql.Session) -> None:
    found = session.sql("SELECT * FROM ML.PREDICT(MODEL m, (SELECT * FROM numbers WHERE id < 0))").arrow()
    assert (found.num_rows, found.column_names) == (0, ["id", "label", "x", "predicted_label"])


@pytest.mark.parametrize("algorithm", ["xftrl", "xnn (hidden = 4)", "xgboost (rounds = 2)"])
def test_a_table_in_memory_is_predicted_as_ml_predict_does(session: xpsql.Session, algorithm: str) -> None:
    session.sql(f"TRAIN OR REPLACE MODEL of_table USING {algorithm} IGNORE (id) AS SELECT * FROM numbers WHERE id < 2000")
    data = "SELECT * FROM numbers WHERE id < 5000"
    rows = session.sql(data).arrow().select(["x"])
    wanted = session.sql(f"SELECT predicted_label FROM ML.PREDICT(MODEL of_table, ({data}))").arrow().column(0).to_numpy()
    version = session.models.version("of_table", None)
    scorer = scorer_of(version, Weights(version, 0, 1).pull)
    for count in (0, 1, 2, 17, 5000):
        found = scorer.predict(rows.slice(0, count))
        assert found.shape == (count, 1)
        np.testing.assert_allclose(found[:, 0], wanted[:count], rtol=1e-6)
