"""Statistics of rows as an algorithm sees them: while it learns, and in predictions."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import jax
import jax.numpy as jnp
import pyarrow as pa
import pytest

import xpsql
from tests.training.log import session, write
from xpsql import algorithms
from xpsql.algorithms.base import Algorithm, Inputs, Layout, Online, Output, Parameters, Supervised, Traits
from xpsql.algorithms.linear.scores import linear_scores
from xpsql.algorithms.losses import LOGLOSS
from xpsql.platform.operators.base import Operator, TableSpec
from xpsql.platform.operators.sgd import SgdOptions, sgd
from xpsql.platform.options import Part, option

__all__ = ["session"]

from dataclasses import dataclass

from tests.cases import costly_after_first


@dataclass(frozen=True)
class CountedOptions:
    rate: float = option(0.1, "learning rate")


def counted(options: CountedOptions, layout: Layout) -> Algorithm:
    """Learn weights; say how often the feature of the first slot was seen, and how often with a click."""

    def optimizer(table: TableSpec) -> Operator:
        return sgd(SgdOptions(learning_rate=options.rate), table)

    def scores(parameters: Parameters, inputs: Inputs) -> jax.Array:
        assert inputs.statistics is not None
        return linear_scores(parameters["weights"] / (1 + inputs.statistics[:, :1]), inputs)

    def of_first(parameters: Parameters, inputs: Inputs) -> jax.Array:
        assert inputs.statistics is not None
        return jnp.asarray(inputs.statistics[inputs.scalar[0]])

    return Algorithm(
        (TableSpec("weights", 1),),
        optimizer,
        Online(Supervised(scores, LOGLOSS)),
        outputs={"seen": Output(lambda p, inputs: of_first(p, inputs)[:, 0]), "both": Output(of_first, vector=True)},
        traits=Traits(statistics=("count", "clicks")),
    )


@pytest.fixture
def engine() -> str:
    """The embedded engine: executors do not know an algorithm that only this module has."""
    return "duckdb"


@costly_after_first
@pytest.mark.parametrize("operators", ["", "OPERATORS (auto_session, sgd (learning_rate = 0.1))"])
def test_an_algorithm_sees_the_statistics_of_rows(
    session: xpsql.Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, operators: str
) -> None:
    monkeypatch.setattr(algorithms, "ALGORITHMS", algorithms.ALGORITHMS.adding(Part("counted", CountedOptions, counted)))
    items = ["abracadabra"[i % 11] for i in range(400)]
    labels = [int(item in "ab") for item in items]
    path = write(pa.table({"item": items, "label": labels}), tmp_path / "log.parquet")
    session.sql(f"TRAIN MODEL m USING counted {operators} WITH (workers = 1) AS SELECT item, label FROM parquet.`{path}`")
    query = f"SELECT item, predicted_seen, predicted_both FROM ML.PREDICT(MODEL m, (SELECT * FROM parquet.`{path}`))"
    seen, clicked = Counter(items), Counter(item for item, label in zip(items, labels, strict=True) if label)
    for row in session.sql(query).arrow().to_pylist():
        assert row["predicted_seen"] == seen[row["item"]]
        assert row["predicted_both"] == [seen[row["item"]], clicked[row["item"]]]
    (unknown,) = session.sql("SELECT predicted_both FROM ML.PREDICT(MODEL m, (SELECT 'z' AS item))").arrow().to_pylist()
    assert unknown["predicted_both"] == [0, 0]
