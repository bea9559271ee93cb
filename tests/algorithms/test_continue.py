"""CONTINUE: what learns batch by batch ends as one training would; the others begin where they had ended, and say so."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import xpsql
from tests.algorithms.uses import USES, Use, rows
from tests.cases import lengthy, quick
from tests.training.log import log, write
from xpsql.algorithms import ALGORITHMS
from xpsql.platform.training.recipe import algorithm_of

ROWS = 512
QUICK = ("xftrl", "fm", "xnn", "linear_regression", "multi_task", "din", "slrm", "two_tower", "word2vec", "line", "xsvd")
"""One of each kind: others have the same tables and layers in another order."""
# Of those whose intercept begins at the mean label, which is another one in two days than in the first.
BEGINS = {"xftrl", "logistic_regression", "ffm"}
GROWS = {"tdm"}  # whose tree is another one by the rows of two days
APART = {"sequence"}  # which sees no events of the days before
WARM = {"owlqn": "CONTINUE begins at the weights of its version", "xgboost": "CONTINUE is a warm start"}


@pytest.fixture
def days(tmp_path: Path) -> Path:
    folder = tmp_path / "days"
    folder.mkdir()
    for day in (0, 1):
        write(log(ROWS, seed=day), folder / f"{day}.parquet", ROWS)
    return folder


def predictions(session: xpsql.Session, model: str, use: Use, path: Path) -> np.ndarray:  # type: ignore[type-arg]
    column = session.sql(f"SELECT * FROM ML.PREDICT(MODEL {model}, ({use.query(path)}))").arrow().columns[-1]
    return np.array(column.to_pylist())


@lengthy
@pytest.mark.parametrize("algorithm", quick((name for name in USES if name not in {*WARM, *GROWS, *APART}), QUICK))
def test_a_version_that_continues_equals_one_training(session: xpsql.Session, days: Path, algorithm: str) -> None:
    use, settings = USES[algorithm], "passes = 1, base_rate = 0.3" if algorithm in BEGINS else "passes = 1"
    session.sql(use.train("m", algorithm, days / "0.parquet", settings))
    session.sql(f"CONTINUE MODEL m AS {use.query(days / '1.parquet')}")
    session.sql(use.train("once", algorithm, days, settings))
    assert algorithm_of(session.models.version("m").manifest).serves
    (counts, weights), (all_counts, all_weights) = rows(session, "m"), rows(session, "once")
    assert counts == all_counts
    np.testing.assert_allclose(weights, all_weights, rtol=1e-4, atol=1e-6)
    found, expected = (predictions(session, model, use, days) for model in ("m", "once"))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("algorithm", WARM)
def test_an_algorithm_of_all_examples_says_that_it_begins_where_it_ended(
    session: xpsql.Session, days: Path, algorithm: str
) -> None:
    use = USES[algorithm]
    session.sql(use.train("m", algorithm, days / "0.parquet"))
    assert not algorithm_of(session.models.version("m").manifest).serves
    (part,) = (part for part in ALGORITHMS if part.name == algorithm)
    assert WARM[algorithm] in " ".join((part.make.__doc__ or "").split())
    session.sql(f"CONTINUE MODEL m AS {use.query(days / '1.parquet')}")
    before, after = (session.models.version("m", number).manifest for number in (1, 2))
    assert (before.learned.examples, after.learned.examples, after.parent) == (ROWS, ROWS, 1)
