"""Scoring: of queries whose filters leave nothing of some pieces of their input, or of all of it; of tables; without JAX."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import xpsql
from tests.cases import costly_after_first, lengthy
from xpsql.platform.progress import SilentReporter
from xpsql.platform.scoring.scorer_cache import scorer_of
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


@costly_after_first
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


WITHOUT_JAX = """
import sys

sys.modules["jax"] = None  # an import of it fails
import xpsql
from xpsql.platform.progress import SilentReporter
from xpsql.platform.serving.served import Served

with xpsql.connect(sys.argv[1], reporter=SilentReporter()) as session:
    for name in ("m", "machine"):
        (row,) = session.sql(f"SELECT predicted_label FROM ML.PREDICT(MODEL {name}, (SELECT '3' AS x))").arrow().to_pylist()
        print(row["predicted_label"])
    for loaded in Served(session.models, ["m", "machine"], None, print).all():
        print(loaded.predict_objects([{"x": "3"}], None)["predicted_label"][0])
"""


@lengthy
def test_what_is_a_sum_over_features_is_predicted_and_served_without_jax(session: xpsql.Session) -> None:
    session.sql("TRAIN MODEL machine USING fm IGNORE (id) AS SELECT * FROM numbers WHERE id < 2000")
    command = [sys.executable, "-c", WITHOUT_JAX, str(session.models.warehouse)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    wanted = []
    for name in ("m", "machine"):
        version = session.models.version(name, None)
        older = dataclasses.replace(version, manifest=dataclasses.replace(version.manifest, sums=None))
        found = scorer_of(older, Weights(older, 0, 1).pull).predict(pa.table({"x": ["3"]}))
        wanted.append(str(float(found[0, 0])))
    assert done.stdout.split() == wanted * 2
