"""ML.COMPARE: metrics follow their definitions, and intervals are as wide as they must be."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sklearn.metrics

import xpsql
from tests.cases import costly, lengthy
from tests.training.log import log, session, write  # noqa: F401  a fixture
from xpsql.platform.errors import DataError, StatementError, XpsqlError
from xpsql.platform.progress import SilentReporter
from xpsql.platform.training.policies import bootstrap

NO_GROUPS = np.empty(0, np.int64)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(log(1500).drop_columns(["scores"]), tmp_path_factory.mktemp("log") / "log.parquet", row_group_rows=500)


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory, path: Path) -> Iterator[xpsql.Session]:
    with xpsql.connect(tmp_path_factory.mktemp("warehouse"), reporter=SilentReporter()) as opened:
        for name, columns in (("wide", "user, item, price"), ("narrow", "price")):
            opened.sql(f"TRAIN MODEL {name} USING xftrl AS SELECT label, {columns} FROM parquet.`{path}`")
        yield opened


def compared(session: xpsql.Session, arguments: str) -> list[dict[str, Any]]:  # noqa: F811
    return list(session.sql(f"SELECT * FROM ML.COMPARE({arguments})").arrow().to_pylist())


def test_metrics_of_weights_are_those_of_scikit_learn() -> None:
    random = np.random.default_rng(1)
    labels, predictions = random.random(300) < 0.3, random.integers(1, 20, 300).astype(np.float32) / 20  # with ties
    weights = random.integers(0, 4, (3, 300)).astype(np.uint8)
    for weight, auc, logloss, rmse, mae in zip(
        weights,
        bootstrap.auc(labels, predictions)(weights),
        bootstrap.logloss(labels, predictions)(weights),
        bootstrap.rmse(labels.astype(np.float32), predictions)(weights),
        bootstrap.mae(labels.astype(np.float32), predictions)(weights),
        strict=True,
    ):
        assert auc == pytest.approx(sklearn.metrics.roc_auc_score(labels, predictions, sample_weight=weight))
        assert logloss == pytest.approx(sklearn.metrics.log_loss(labels, predictions, sample_weight=weight), rel=1e-6)
        assert rmse == pytest.approx(sklearn.metrics.root_mean_squared_error(labels, predictions, sample_weight=weight))
        assert mae == pytest.approx(sklearn.metrics.mean_absolute_error(labels, predictions, sample_weight=weight))


def test_weights_are_poisson_of_mean_one_and_those_of_a_group_are_alike() -> None:
    (weights,) = bootstrap.drawn(4000, NO_GROUPS, np.random.default_rng(1))
    counts = np.bincount(weights.astype(int).ravel()) / weights.size
    assert counts[:4] == pytest.approx(np.exp(-1) / np.array([1, 1, 2, 6]), abs=1e-3)
    groups = np.repeat(np.arange(50), 4)
    (weights,) = bootstrap.drawn(200, groups, np.random.default_rng(1))
    assert (weights.reshape(-1, 50, 4) == weights.reshape(-1, 50, 4)[:, :, :1]).all()


def test_the_bounds_of_a_mean_are_two_standard_errors_apart_from_it() -> None:
    random = np.random.default_rng(2)
    one, other = random.normal(1, 2, 2000), random.normal(0, 1, 2000)
    (found,) = bootstrap.intervals([(bootstrap.mean(one), bootstrap.mean(other))], 2000, NO_GROUPS, 7)
    apart = 1.96 * (one - other).std() / np.sqrt(2000)
    assert found.low == pytest.approx((one - other).mean() - apart, abs=0.1 * apart)
    assert found.high == pytest.approx((one - other).mean() + apart, abs=0.1 * apart)
    again, groups = np.repeat(one, 9), np.repeat(np.arange(2000), 9)
    repeated = (bootstrap.mean(again), bootstrap.mean(np.repeat(other, 9)))
    (together,) = bootstrap.intervals([repeated], 18_000, groups, 7)
    assert together == pytest.approx(found)  # nine of each tell no more than one
    (alone,) = bootstrap.intervals([repeated], 18_000, NO_GROUPS, 7)
    assert alone.high - alone.low == pytest.approx((found.high - found.low) / 3, rel=0.1)


@lengthy
def test_the_bounds_of_auc_are_those_of_drawing_examples_again_and_again() -> None:
    random = np.random.default_rng(3)
    labels = random.random(500) < 0.2
    one, other = ((labels * shift + random.normal(size=500)).astype(np.float32) for shift in (1.0, 0.6))
    (found,) = bootstrap.intervals([(bootstrap.auc(labels, one), bootstrap.auc(labels, other))], 500, NO_GROUPS, 7)
    differences = []
    for _ in range(400):
        some = random.integers(0, 500, 500)
        mine, others = (sklearn.metrics.roc_auc_score(labels[some], values[some]) for values in (one, other))
        differences.append(mine - others)
    low, high = np.quantile(differences, [0.025, 0.975])
    assert (found.low, found.high) == pytest.approx((low, high), abs=0.15 * (high - low))


def test_of_examples_with_one_label_nothing_is_known_of_auc() -> None:
    metric = bootstrap.auc(np.ones(5, np.bool_), np.arange(5, dtype=np.float32))
    assert bootstrap.intervals([(metric, metric)], 5, NO_GROUPS, 7) == [bootstrap.Interval(None, None, None, None, None)]


@costly
def test_two_models_are_compared_on_each_engine_the_same_way_twice(session: xpsql.Session, path: Path) -> None:  # noqa: F811
    for name, columns in (("wide", "user, item, price"), ("narrow", "user")):
        session.sql(
            f"TRAIN MODEL {name} USING xftrl WITH (workers = 1, shards = 1, passes = 3) "
            f"AS SELECT label, {columns} FROM parquet.`{path}`"
        )
    rows = f"(SELECT label, user, item, price, count(*) AS n FROM parquet.`{path}` GROUP BY label, user, item, price)"
    found = compared(session, f"MODEL wide, MODEL narrow VERSION 1, {rows}")
    assert compared(session, f"MODEL wide, MODEL narrow, {rows}") == found
    assert [row["metric"] for row in found] == ["auc", "logloss"]
    for row in found:
        for side, model in (("model_value", "wide"), ("other_value", "narrow")):
            (measured,) = session.sql(f"SELECT * FROM ML.EVALUATE(MODEL {model}, {rows})").arrow().to_pylist()
            assert row[side] == pytest.approx(measured[row["metric"]], rel=1e-6)
            assert row["examples"] == measured["examples"]
        assert row["difference"] == pytest.approx(row["model_value"] - row["other_value"])
        assert row["low"] < row["difference"] < row["high"]
    assert found[0]["low"] > 0
    assert found[1]["high"] < 0


def test_a_model_does_not_differ_from_itself(embedded: xpsql.Session, path: Path) -> None:
    for row in compared(embedded, f"MODEL wide, MODEL wide, (SELECT * FROM parquet.`{path}`)"):
        assert row["difference"] == row["low"] == row["high"] == 0


def test_groups_are_drawn_as_a_whole(embedded: xpsql.Session, path: Path) -> None:
    rows = f"(SELECT *, pmod(item, 20) AS day FROM parquet.`{path}`)"
    alone, together = (compared(embedded, f"MODEL wide, MODEL narrow, {rows}{group}") for group in ("", ", GROUP day"))
    assert {row["groups"] for row in alone} == {None}
    assert {row["groups"] for row in together} == {20}
    for one, other in zip(alone, together, strict=True):
        assert one["difference"] == other["difference"]
        assert (one["low"], one["high"]) != (other["low"], other["high"])


def test_models_of_numbers_are_compared_by_their_errors(embedded: xpsql.Session, path: Path) -> None:
    for name, column in (("one", "item"), ("other", "user")):
        embedded.sql(
            f"TRAIN OR REPLACE MODEL {name} USING linear_regression LABEL price "
            f"AS SELECT price, {column} FROM parquet.`{path}` WHERE price IS NOT NULL"
        )
    found = compared(embedded, f"MODEL one, MODEL other, (SELECT * FROM parquet.`{path}` WHERE price IS NOT NULL)")
    assert [row["metric"] for row in found] == ["rmse", "mae"]
    with pytest.raises(StatementError, match="one v1 predicts price as numbers, wide v1 predicts label as 0 or 1"):
        compared(embedded, f"MODEL one, MODEL wide, (SELECT * FROM parquet.`{path}` WHERE price IS NOT NULL)")


def test_what_cannot_be_compared_is_refused_at_its_place(embedded: xpsql.Session, path: Path) -> None:
    rows = f"(SELECT * FROM parquet.`{path}`)"
    with pytest.raises(StatementError, match=r"Expected ',' and MODEL name, a second one, got '\)'"):
        compared(embedded, "MODEL wide)")
    with pytest.raises(StatementError, match=r"Expected MODEL, got '\('"):
        compared(embedded, f"MODEL wide, {rows}")
    with pytest.raises(StatementError, match=r"GROUP names 'usr', which the query does not return. Did you mean user"):
        compared(embedded, f"MODEL wide, MODEL narrow, {rows}, GROUP usr")
    with pytest.raises(XpsqlError, match="There is no model unknown"):
        compared(embedded, f"MODEL wide, MODEL unknown, {rows}")
    with pytest.raises(DataError, match="the query returns none"):
        compared(embedded, f"MODEL wide, MODEL narrow, (SELECT * FROM parquet.`{path}` WHERE item < 0)")
