"""The parts that docs/extending.md adds as examples keep the contracts that they illustrate."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xpsql
from tests.cases import costly_after_first
from tests.docs.blocks import blocks
from xpsql import algorithms
from xpsql.platform.progress import SilentReporter
from xpsql.platform.sql import script
from xpsql.platform.training.metrics.base import Sample
from xpsql.testing import OPERATOR_CHECKS, OperatorTrial


def example(contract: str) -> dict[str, Any]:
    """Run the block of a contract and return its names."""
    (text,) = [b.text for b in blocks("docs/extending.md") if (b.name, b.value) == ("contract", contract)]
    names: dict[str, Any] = {"__name__": __name__}
    exec(compile(text, "extending.md", "exec", dont_inherit=True), names)
    return names


@costly_after_first
@pytest.mark.parametrize("check", OPERATOR_CHECKS, ids=lambda check: check.__name__)
def test_the_operator_of_the_guide_conforms(check: Callable[[OperatorTrial], None]) -> None:
    check(OperatorTrial(example("operator")["NOISE_FLOOR"], None))


def test_the_statement_of_the_guide_runs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(script, "STATEMENTS", script.STATEMENTS.adding(example("statement")["COUNT_VERSIONS"]))
    with xpsql.connect(reporter=SilentReporter()) as session:
        session.sql("TRAIN MODEL m USING xftrl AS SELECT * FROM VALUES (0, 'a'), (1, 'b') AS t(label, x)")
        assert session.sql("COUNT VERSIONS OF m").arrow().to_pylist() == [{"versions": 1}]


def test_the_algorithm_of_the_guide_learns(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(algorithms, "ALGORITHMS", algorithms.ALGORITHMS.adding(example("algorithm")["LEAST_SQUARES"]))
    with xpsql.connect(reporter=SilentReporter()) as session:
        session.sql("CREATE TABLE t AS SELECT CAST(id % 4 AS INT) AS x, CAST(id % 4 AS DOUBLE) * 3D AS label FROM range(4000)")
        session.sql("TRAIN MODEL m USING least_squares (learning_rate = 0.5) WITH (batch_size = 50) AS SELECT * FROM t")
        (row,) = session.sql("SELECT rmse FROM ML.EVALUATE(MODEL m, TABLE t)").arrow().to_pylist()
    assert row["rmse"] < 0.5


def test_the_metric_of_the_guide_counts_what_it_says() -> None:
    metric = example("metric")["WIN_RATE"]
    sample = Sample(np.array([0.0, 1.0, 1.0, 0.0]), np.array([0.1, 0.9, 0.2, 0.3]), np.empty(0, np.int64))
    state = metric.counts.merge(metric.counts.add(metric.counts.zero(), sample), metric.counts.zero())
    assert metric.value(state) == 0.75
    assert metric.value(metric.counts.zero()) is None
