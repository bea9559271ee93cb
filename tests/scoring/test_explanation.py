"""ML.EXPLAIN_PREDICT: what slots add to scores is what the model says."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import xpsql
from tests.algorithms.uses import Use
from tests.cases import costly, costly_after_first, lengthy
from tests.training.log import log, write
from xpsql.platform.errors import DataError, StatementError
from xpsql.platform.progress import SilentReporter
from xpsql.platform.scoring import explanation, prediction

SLOTS = ("user", "item", "price", "tags", "vector")
TYPES = {"user": "STRING", "item": "BIGINT", "price": "DOUBLE", "tags": "ARRAY<STRING>", "vector": "ARRAY<FLOAT>"}
EXACT = {"xftrl": Use(), "fm": Use("(dim = 3, init_scale = 0.3)")}
INTEGRATED = {
    "deepfm": Use("(dim = 3, hidden = (16), init_scale = 0.2, learning_rate = 0.02)"),
    "din": Use("(target = (item), history = (tags), dim = 4, hidden = (8), attention = (8))"),
    "multi_task": Use("(base = mmoe, experts = 2, gate_dropout = 0)"),
}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    table = log(600)
    table = table.append_column("buy", pa.array((np.arange(600) % 3 == 0).astype(np.int32)))
    return write(table, tmp_path_factory.mktemp("log") / "log.parquet", row_group_rows=300)


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[xpsql.Session]:
    with xpsql.connect(tmp_path_factory.mktemp("warehouse"), reporter=SilentReporter()) as session:
        yield session


def train(session: xpsql.Session, path: Path, algorithm: str, use: Use, labels: tuple[str, ...] = ("label",)) -> None:
    session.sql(
        f"TRAIN OR REPLACE MODEL m USING {algorithm} {use.options} LABEL {', '.join(labels)} "
        "WITH (nulls = 'absent', workers = 1, shards = 1) "
        f"AS SELECT {', '.join((*labels, *SLOTS))} FROM parquet.`{path}`"
    )


def explained(session: xpsql.Session, query: str, top: int = 100, baseline: str = "") -> pa.Table:
    against = f", BASELINE ({baseline})" if baseline else ""
    return session.sql(f"SELECT * FROM ML.EXPLAIN_PREDICT(MODEL m, ({query}), {top}{against})").arrow()


def added(table: pa.Table) -> list[dict[str, float]]:
    """Return the attributions of each row by slot."""
    return [{found["feature"]: found["attribution"] for found in row} for row in table["top_feature_attributions"].to_pylist()]


def column(table: pa.Table, name: str) -> np.ndarray:
    return np.asarray(table[name].to_numpy())


def left_out(slots: set[str], path: Path) -> str:
    """Return the query of a few rows in which these slots are NULL."""
    columns = [f"CAST(NULL AS {TYPES[name]}) AS {name}" if name in slots else name for name in SLOTS]
    return f"SELECT {', '.join(columns)} FROM parquet.`{path}` LIMIT 7"


@lengthy
@costly_after_first
@pytest.mark.parametrize("algorithm", EXACT)
def test_of_sums_attributions_are_shapley_values_of_the_slots(session: xpsql.Session, path: Path, algorithm: str) -> None:
    train(session, path, algorithm, EXACT[algorithm])
    there = ("user", "item", "price")  # vectors and tags are always there
    scores = {}
    for some in itertools.chain.from_iterable(itertools.combinations(there, n) for n in range(4)):
        found = session.sql(
            f"SELECT predicted_label AS p FROM ML.PREDICT(MODEL m, ({left_out({*SLOTS} - {*some}, path)}))"
        ).arrow()
        p = column(found, "p")
        scores[frozenset(some)] = np.log(p / (1 - p))
    table = explained(session, left_out({"tags", "vector"}, path), baseline=left_out({*SLOTS}, path))
    np.testing.assert_allclose(column(table, "baseline_prediction_value"), scores[frozenset()], atol=1e-5)
    np.testing.assert_allclose(column(table, "prediction_value"), scores[frozenset(there)], atol=1e-5)
    for slot in there:
        value = np.zeros(7)
        others = [name for name in there if name != slot]
        for some in itertools.chain.from_iterable(itertools.combinations(others, n) for n in range(3)):
            share = math.factorial(len(some)) * math.factorial(2 - len(some)) / math.factorial(3)
            value += share * (scores[frozenset({*some, slot})] - scores[frozenset(some)])
        np.testing.assert_allclose([row[slot] for row in added(table)], value, atol=2e-5)
    assert all(row["tags"] == row["vector"] == 0 for row in added(table))
    assert column(table, "approximation_error").max() < 1e-5


@costly_after_first
@pytest.mark.parametrize("algorithm", ["xftrl", "fm", "deepfm", "multi_task"])
def test_the_baseline_is_the_mean_score_and_attributions_of_all_rows_even_out(
    session: xpsql.Session, path: Path, algorithm: str
) -> None:
    labels = ("label", "buy") if algorithm == "multi_task" else ("label",)
    train(session, path, algorithm, (EXACT | INTEGRATED)[algorithm], labels)
    rows = f"SELECT {', '.join(SLOTS)} FROM parquet.`{path}`"
    table = explained(session, rows)
    by_label = (len(labels), -1)
    value = column(table, "prediction_value").reshape(by_label, order="F")
    baseline = column(table, "baseline_prediction_value").reshape(by_label, order="F")
    np.testing.assert_allclose(baseline, np.broadcast_to(value.mean(axis=1, keepdims=True), baseline.shape), rtol=1e-6)
    sums = {slot: sum(row[slot] for row in added(table)) for slot in SLOTS}
    sizes = {slot: sum(abs(row[slot]) for row in added(table)) for slot in SLOTS}
    assert all(abs(sums[slot]) <= 1e-4 * sizes[slot] for slot in SLOTS)
    few = explained(session, left_out(set(), path), baseline=rows)
    assert column(few, "baseline_prediction_value")[0] == pytest.approx(baseline[0][0])
    assert added(few)[0] == pytest.approx(added(table)[0], abs=1e-6 if algorithm in EXACT else 0.01)


def test_a_row_alone_needs_rows_to_be_compared_with(session: xpsql.Session, path: Path) -> None:
    train(session, path, "xftrl", Use())
    alone = f"SELECT * FROM parquet.`{path}` LIMIT 1"
    with pytest.raises(DataError, match="One row is its own mean"):
        explained(session, alone)
    with pytest.raises(DataError, match="BASELINE returns no rows"):
        explained(session, alone, baseline=f"SELECT * FROM parquet.`{path}` WHERE price < -1")
    with pytest.raises(StatementError, match="which the query does not return"):
        explained(session, alone, baseline=f"SELECT user FROM parquet.`{path}`")
    assert len(added(explained(session, alone, baseline=f"SELECT * FROM parquet.`{path}`"))[0]) == len(SLOTS)


def test_a_long_baseline_is_a_part_of_its_rows_evenly_spread(
    session: xpsql.Session, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train(session, path, "xftrl", Use())
    monkeypatch.setattr(explanation, "MOST_ROWS", 90)
    table = explained(session, f"SELECT * FROM parquet.`{path}`")
    every = column(table, "prediction_value")[::7]
    assert column(table, "baseline_prediction_value")[0] == pytest.approx(every.mean())


@lengthy
@costly_after_first
@pytest.mark.parametrize("algorithm", INTEGRATED)
def test_attributions_of_a_network_add_up_to_its_score(session: xpsql.Session, path: Path, algorithm: str) -> None:
    labels = ("label", "buy") if algorithm == "multi_task" else ("label",)
    train(session, path, algorithm, INTEGRATED[algorithm], labels)
    table = explained(session, left_out(set(), path), baseline=left_out({*SLOTS}, path))
    assert len(table) == 7 * len(labels)
    baseline, value = column(table, "baseline_prediction_value"), column(table, "prediction_value")
    of_rows = added(table)
    size = np.array([sum(map(abs, row.values())) for row in of_rows])
    rest = np.abs(value - baseline - [sum(row.values()) for row in of_rows])
    np.testing.assert_allclose(column(table, "approximation_error"), rest / size, atol=1e-6)
    assert (rest <= 0.01 * size).all()
    assert (size > 0).all()
    empty = explained(session, left_out(set(SLOTS), path))
    np.testing.assert_allclose(column(empty, "prediction_value"), baseline, atol=1e-5)
    assert all(found == 0 for row in added(empty) for found in row.values())
    named = table["label"].to_pylist() if len(labels) > 1 else ["label"] * 7
    predicted = np.array([table[f"predicted_{name}"][number].as_py() for number, name in enumerate(named)])
    np.testing.assert_allclose(1 / (1 + np.exp(-value)), predicted, atol=1e-5)
    assert named == [*labels] * 7


def test_of_numbers_attributions_are_in_the_unit_of_the_label(session: xpsql.Session, path: Path) -> None:
    session.sql(
        "TRAIN OR REPLACE MODEL m USING linear_regression LABEL y "
        f"AS SELECT 100 + 50 * label AS y, user, price FROM parquet.`{path}`"
    )
    table = explained(session, f"SELECT user, price FROM parquet.`{path}`")
    sums = [sum(row.values()) for row in added(table)]
    np.testing.assert_allclose(column(table, "predicted_y"), column(table, "baseline_prediction_value") + sums, rtol=1e-5)
    assert 100 < column(table, "predicted_y").mean() < 150


def test_of_trees_attributions_add_up_to_log_odds(session: xpsql.Session, path: Path) -> None:
    pytest.importorskip("xgboost")
    session.sql(
        f"TRAIN OR REPLACE MODEL m USING xgboost (rounds = 10) AS SELECT label, user, item, price, vector FROM parquet.`{path}`"
    )
    table = explained(session, f"SELECT user, item, price, vector FROM parquet.`{path}`")
    p = column(table, "predicted_label")
    sums = [sum(row.values()) for row in added(table)]
    np.testing.assert_allclose(np.log(p / (1 - p)), column(table, "baseline_prediction_value") + sums, atol=1e-4)
    assert {*added(table)[0]} == {"user", "item", "price", "vector"}
    assert column(table, "approximation_error").max() < 1e-5


def test_the_largest_come_first_and_no_more_than_asked_for(session: xpsql.Session, path: Path) -> None:
    train(session, path, "xftrl", Use())
    query = left_out(set(), path)
    whole, some = added(explained(session, query)), added(explained(session, query, 2))
    for row, first in zip(whole, some, strict=True):
        sizes = [abs(value) for value in row.values()]
        assert sizes == sorted(sizes, reverse=True)
        assert len(sizes) == len(SLOTS)
        assert [*first.items()] == [*row.items()][:2]
    narrow = session.sql(f"SELECT prediction_value FROM ML.EXPLAIN_PREDICT(MODEL m, ({query}), 1)").arrow()
    assert column(narrow, "prediction_value").tolist() == column(explained(session, query), "prediction_value").tolist()
    assert len(explained(session, f"{query.rpartition(' LIMIT')[0]} WHERE price < -1")) == 0


@pytest.mark.parametrize("top", ["0", "'all'", "true", "1.5"])
def test_a_number_of_attributions_is_whole_and_positive(session: xpsql.Session, path: Path, top: str) -> None:
    train(session, path, "xftrl", Use())
    with pytest.raises(StatementError, match=r"takes a number of attributions for each row, 1 or more; got .*line 1"):
        session.sql(f"SELECT * FROM ML.EXPLAIN_PREDICT(MODEL m, ({left_out(set(), path)}), {top})")


def test_models_without_labels_and_columns_that_would_come_twice_are_refused(session: xpsql.Session, path: Path) -> None:
    session.sql(f"TRAIN MODEL w USING word2vec (dim = 4) AS SELECT tags FROM parquet.`{path}`")
    with pytest.raises(StatementError, match=r"w has none: word2vec learns without labels.*at 'ML.EXPLAIN_PREDICT"):
        session.sql(f"SELECT * FROM ML.EXPLAIN_PREDICT(MODEL w, (SELECT tags FROM parquet.`{path}`), 3)")
    train(session, path, "xftrl", Use())
    with pytest.raises(StatementError, match=r"already has the column prediction_value; rename it with AS"):
        explained(session, f"SELECT *, 1 AS prediction_value FROM parquet.`{path}`")


@costly
def test_tasks_explain_as_one_process_does(
    spark: SparkSession, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = f"SELECT user, item, price, tags, vector FROM parquet.`{path}`"
    with xpsql.connect(tmp_path / "warehouse", spark, SilentReporter()) as session:
        train(session, path, "fm", EXACT["fm"])
        one = explained(session, query)
        monkeypatch.setattr(prediction, "SMALL_ROWS", 0)
        assert explained(session, query).equals(one)
        assert len(one) == 600
