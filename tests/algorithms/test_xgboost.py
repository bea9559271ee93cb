"""XGBoost: what it learns and predicts is what the package does, called directly."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import xgboost
from numpy.typing import NDArray
from pyspark.sql import SparkSession

import xpsql
from tests.cases import costly, costly_after_first, lengthy, slow, slow_elsewhere
from tests.notes import Notes
from tests.training.log import embedded, session, write
from xpsql.platform.errors import ModelError, OptionError, StatementError
from xpsql.platform.progress import SilentReporter

__all__ = ["session"]

ROWS = 1500
CITIES = np.array(["oslo", "rome", "bern", "kyiv", "riga"])


class Log:
    """Clicks, and the same as xgboost's matrix, categories in the order of their frequency; some numbers may be outliers."""

    def __init__(self, folder: Path, seed: int = 0, outlier: float = 0) -> None:
        random = np.random.default_rng(seed)
        city = random.choice(5, ROWS, p=[0.4, 0.25, 0.2, 0.1, 0.05])
        x = random.normal(size=(ROWS, 2)).astype(np.float32)
        missing = random.random(ROWS) < 0.1
        score = np.where(missing, 0, x[:, 0]) * (city == 1) + x[:, 1] ** 2 - 1 + 0.5 * city
        self.label = (random.random(ROWS) < 1 / (1 + np.exp(-score))).astype(int)
        if outlier:
            x[::50], x[1::50] = outlier, -outlier
        numbers = pa.array(x[:, 0], mask=missing)
        columns = {"label": self.label, "city": CITIES[city], "a": numbers, "v": x[:, 1:].tolist()}
        self.path = write(
            pa.table({**columns, "v": pa.array(x[:, 1:].tolist(), pa.list_(pa.float32()))}), folder / f"log{seed}.parquet", 400
        )
        self.values = np.column_stack([city, np.where(missing, np.nan, x[:, 0]), x[:, 1]]).astype(np.float32)

    def matrix(self) -> xgboost.DMatrix:
        types = {"feature_names": ["city", "a", "v(0)"], "feature_types": ["c", "q", "q"]}
        return xgboost.DMatrix(self.values, self.label, enable_categorical=True, **types)


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path)


def predicted(session: xpsql.Session, log: Log) -> NDArray[np.float32]:
    query = f"SELECT predicted_label FROM ML.PREDICT(MODEL m, (SELECT * FROM parquet.`{log.path}`))"
    found: NDArray[np.float32] = session.sql(query).arrow()["predicted_label"].to_numpy().astype(np.float32)
    return found


# More bins than values: where they are fewer, tasks that learn together agree on others than one process finds.
PARAMETERS = {"objective": "binary:logistic", "tree_method": "hist", "eta": 0.1, "max_depth": 3, "max_bin": 2048, "seed": 7}
TRAIN = (
    "TRAIN MODEL m USING xgboost (rounds = 20, max_depth = 3, bins = 2048, subsample = 1, columns = 1, l2 = 1) AS "
    "SELECT * FROM parquet.`{}`"
)


@lengthy
@costly_after_first
def test_predictions_are_those_of_the_package(session: xpsql.Session, log: Log) -> None:
    session.sql(TRAIN.format(log.path))
    peer = xgboost.train(PARAMETERS, log.matrix(), 20).predict(log.matrix())
    np.testing.assert_array_equal(predicted(session, log), peer)
    (row,) = session.sql("SELECT examples, auc FROM ML.EVALUATE(MODEL m)").arrow().to_pylist()
    assert row["examples"] == ROWS
    assert row["auc"] > 0.75


@lengthy
@slow_elsewhere
def test_weights_are_the_numbers_of_categories_by_frequency(session: xpsql.Session, log: Log) -> None:
    session.sql(TRAIN.format(log.path))
    cities = "SELECT explode(array('oslo', 'rome', 'bern', 'kyiv', 'riga')) AS city"
    rows = session.sql(
        f"SELECT c.city, w.weight FROM ML.WEIGHTS(MODEL m) w JOIN ({cities}) c ON w.key = feature_key('city', c.city) "
        "ORDER BY w.weight"
    ).arrow()
    assert rows["city"].to_pylist() == list(CITIES)
    assert rows["weight"].to_pylist() == [1, 2, 3, 4, 5]


@costly
@slow_elsewhere
def test_a_category_that_is_not_known_is_missing(session: xpsql.Session, log: Log) -> None:
    session.sql(TRAIN.format(log.path))
    row = "SELECT 'paris' AS city, CAST(0.5 AS FLOAT) AS a, array(CAST(1.0 AS FLOAT)) AS v"
    found = session.sql(f"SELECT predicted_label AS p FROM ML.PREDICT(MODEL m, ({row}))").arrow()["p"][0].as_py()
    other = Log.__new__(Log)
    other.values, other.label = np.array([[np.nan, 0.5, 1.0]], np.float32), np.zeros(1)
    assert np.float32(found) == xgboost.train(PARAMETERS, log.matrix(), 20).predict(other.matrix())[0]


@pytest.fixture
def spark_session(spark: SparkSession, tmp_path: Path) -> Iterator[xpsql.Session]:
    with xpsql.connect(tmp_path / "spark", spark, SilentReporter()) as session:
        yield session


@costly
def test_workers_on_spark_learn_the_model_of_one_process(spark_session: xpsql.Session, log: Log) -> None:
    """Row groups are four: one of five workers has no examples."""
    spark_session.sql(TRAIN.format(log.path).replace(" AS ", " WITH (workers = 5) AS "))
    found = predicted(spark_session, log)
    np.testing.assert_allclose(found, xgboost.train(PARAMETERS, log.matrix(), 20).predict(log.matrix()), atol=1e-4)
    (row,) = spark_session.sql("SELECT examples FROM ML.EVALUATE(MODEL m)").arrow().to_pylist()
    assert row["examples"] == ROWS


@slow
def test_workers_on_spark_go_on_from_the_version_before(spark_session: xpsql.Session, log: Log, tmp_path: Path) -> None:
    more = Log(tmp_path, seed=1)
    spark_session.sql(TRAIN.format(log.path).replace(" AS ", " WITH (workers = 2) AS "))
    spark_session.sql(f"CONTINUE MODEL m AS SELECT * FROM parquet.`{more.path}`")
    spark_session.sql(f"EXPORT MODEL m TO '{tmp_path / 'export'}' FORMAT parquet")
    booster = xgboost.Booster(model_file=bytearray((tmp_path / "export" / "_package" / "model").read_bytes()))
    assert booster.num_boosted_rounds() == 40
    first = xgboost.train(PARAMETERS, log.matrix(), 20)
    peer = xgboost.train(PARAMETERS, more.matrix(), 20, xgb_model=first).predict(more.matrix())
    np.testing.assert_allclose(predicted(spark_session, more), peer, atol=1e-4)


@costly
@slow_elsewhere
def test_a_version_that_continues_adds_rounds_on_the_new_data(session: xpsql.Session, log: Log, tmp_path: Path) -> None:
    more = Log(tmp_path, seed=1)
    session.sql(TRAIN.format(log.path))
    session.sql(f"CONTINUE MODEL m AS SELECT * FROM parquet.`{more.path}`")
    first = xgboost.train(PARAMETERS, log.matrix(), 20)
    peer = xgboost.train(PARAMETERS, more.matrix(), 20, xgb_model=first).predict(more.matrix())
    np.testing.assert_allclose(predicted(session, more), peer, rtol=1e-6)


@costly
def test_an_older_xgboost_refuses_trees_that_it_may_misread(tmp_path: Path, log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process, whose xgboost says it is another."""
    with xpsql.connect(tmp_path / "warehouse", reporter=SilentReporter()) as session:
        with monkeypatch.context() as newer:
            newer.setattr(xgboost, "__version__", "99.1.0")
            session.sql(TRAIN.format(log.path))
        for refused in (
            lambda: predicted(session, log),
            lambda: session.sql(TRAIN.format(log.path).replace("TRAIN", "CONTINUE", 1)),
        ):
            with pytest.raises(ModelError, match=r"XGBoost 99\.1\.0 grew .* Install xgboost 99\.1\.0 or newer"):
                refused()


@costly
@embedded
def test_a_version_that_continues_takes_no_other_slots(session: xpsql.Session, log: Log) -> None:
    session.sql(TRAIN.format(log.path))
    for statement in ("CONTINUE", "EXPLAIN CONTINUE"):
        with pytest.raises(StatementError, match=r"returns more, x too\. Name them in IGNORE"):
            session.sql(f"{statement} MODEL m AS SELECT *, 1 AS more, 2.5D AS x FROM parquet.`{log.path}`")
    assert [version.number for version in session.models.versions("m")] == [1]
    session.sql(f"CONTINUE MODEL m IGNORE (more) AS SELECT *, 1 AS more FROM parquet.`{log.path}`")


@costly
@embedded
def test_categories_cannot_be_shrunk_away_as_others_would_get_their_numbers(session: xpsql.Session, log: Log) -> None:
    session.sql(TRAIN.format(log.path))
    with pytest.raises(ModelError, match="numbers of its categories"):
        session.sql("SHRINK MODEL m WHERE weight > 3")
    assert [version.number for version in session.models.versions("m")] == [1]


@embedded
def test_slots_that_the_limit_of_categories_cuts_are_told(tmp_path: Path, engine: str | SparkSession, log: Log) -> None:
    notes = Notes()
    with xpsql.connect(tmp_path / "told", engine, notes) as session:
        for categories in (5, 2):
            using = f"xgboost (rounds = 1, categories = {categories})"
            session.sql(f"TRAIN OR REPLACE MODEL m USING {using} AS SELECT * FROM parquet.`{log.path}`")
            told = [note for note in notes.notes if "count as missing" in note]
            assert len(told) == (categories == 2)
    assert re.match("city has 5 values, of which categories = 2 keeps the most frequent apart: the others, 3[0-9]% of", told[0])


@costly
@embedded
def test_a_model_without_categories_goes_on(session: xpsql.Session, log: Log, tmp_path: Path) -> None:
    session.sql(TRAIN.format(log.path).replace("AS SELECT", "IGNORE (city) AS SELECT"))
    session.sql(f"CONTINUE MODEL m AS SELECT * FROM parquet.`{log.path}`")
    session.sql(f"EXPORT MODEL m TO '{tmp_path / 'export'}' FORMAT parquet")
    booster = xgboost.Booster(model_file=bytearray((tmp_path / "export" / "_package" / "model").read_bytes()))
    assert booster.num_boosted_rounds() == 40


@embedded
def test_weights_of_0_throughout_are_reported(session: xpsql.Session, log: Log) -> None:
    statement = TRAIN.format(log.path).replace("AS SELECT *", "WEIGHT w AS SELECT *, 0 AS w")
    with pytest.raises(StatementError, match="WEIGHT w is 0 in all rows") as raised:
        session.sql(statement)
    assert "\n" not in str(raised.value)


@lengthy
@embedded
def test_an_infinite_value_is_the_largest_float(session: xpsql.Session, tmp_path: Path) -> None:
    largest = Log(tmp_path, outlier=float(np.finfo(np.float32).max)).matrix()
    infinite = Log(tmp_path, outlier=np.inf)
    session.sql(TRAIN.format(infinite.path))
    peer = xgboost.train(PARAMETERS, largest, 20).predict(largest)
    np.testing.assert_array_equal(predicted(session, infinite), peer)


@lengthy
@embedded
def test_an_export_has_the_booster_beside_the_categories(session: xpsql.Session, log: Log, tmp_path: Path) -> None:
    session.sql(TRAIN.format(log.path))
    session.sql(f"EXPORT MODEL m TO '{tmp_path / 'export'}' FORMAT parquet")
    booster = xgboost.Booster(model_file=bytearray((tmp_path / "export" / "_package" / "model").read_bytes()))
    assert booster.num_boosted_rounds() == 20


@embedded
def test_without_the_package_the_statement_says_what_to_install(
    session: xpsql.Session, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(StatementError, match=r"pip install 'xpsql\[xgboost\]'"):
        session.sql("TRAIN MODEL m USING xgboost (rounds = 3) AS SELECT * FROM " + f"parquet.`{log.path}`")
    assert session.sql("SHOW MODELS").arrow().num_rows == 0


@embedded
def test_arrays_are_refused(session: xpsql.Session) -> None:
    with pytest.raises(OptionError, match="takes no arrays or maps, and tags is one"):
        session.sql("TRAIN MODEL m USING xgboost AS SELECT 1 AS label, array('a') AS tags")
