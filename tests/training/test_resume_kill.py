"""kill -9 of trainings that take no checkpoints: RESUME begins them again and ends as if they had not been killed."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pyarrow as pa
import pytest

import xpsql
from tests.training.forked import Training
from tests.training.log import log, write
from xpsql.platform.progress import SilentReporter

KILLS = 2
MOST_TRIES = 20
ROWS = 5_000
ALGORITHMS = {"owlqn": "owlqn (l1 = 0.001)", "xgboost": "xgboost (rounds = 20)"}
STATEMENT = "TRAIN MODEL m USING {} AS SELECT label, item, price FROM parquet.`{}`"


def results(session: xpsql.Session, path: Path) -> list[pa.Table]:
    """Return what a user sees of the model, but for times."""
    queries = (
        "SELECT slot, key, weight, count, shows, clicks FROM ML.WEIGHTS(MODEL m) ORDER BY key",
        f"SELECT * FROM ML.PREDICT(MODEL m, (SELECT item, price FROM parquet.`{path}`)) ORDER BY item, price",
        "SELECT * FROM ML.EVALUATE(MODEL m)",
        "SELECT * FROM ML.TRAINING_INFO(MODEL m) ORDER BY time",
    )
    *found, info = (session.sql(query).arrow() for query in queries)
    return [*found, info.select([name for name in info.column_names if name in ("batch", "objective", "examples", "auc")])]


def interrupted(session: xpsql.Session, algorithm: str) -> bool:
    """Return whether the model's training was interrupted, which SHOW MODELS tells as well."""
    (model,) = session.sql("SHOW MODELS").arrow().to_pylist()
    if model["status"] == "ready":
        return False
    done = r"(\d+ iterations over all|0 of 5,000) examples" if algorithm == "owlqn" else "0 of 5,000 examples"
    assert model["status"] == "interrupted"
    assert re.fullmatch(f"version 1 interrupted: {done}; RESUME MODEL begins again", model["progress"])
    return True


@pytest.mark.parametrize("algorithm", list(ALGORITHMS))
def test_a_training_without_checkpoints_begins_again_and_ends_the_same(algorithm: str, tmp_path: Path) -> None:
    pytest.importorskip("xgboost" if algorithm == "xgboost" else "xpsql")
    seed = random.randrange(10**6)
    print(f"seed {seed}")  # pytest shows it where the test fails
    chance, path = random.Random(seed), write(log(ROWS), tmp_path / "log.parquet", row_group_rows=1000)
    statement = STATEMENT.format(ALGORITHMS[algorithm], path)
    ((_, seconds),) = Training(tmp_path / "whole", [statement], "begun").ended()
    with xpsql.connect(tmp_path / "whole", "duckdb", SilentReporter()) as session:
        expected = results(session, path)
    kills, tries = 0, 0
    while kills < KILLS:
        tries += 1
        assert tries < MOST_TRIES
        warehouse, do = tmp_path / str(tries), statement
        with xpsql.connect(warehouse, "duckdb", SilentReporter()) as session:
            while not Training(warehouse, [do], "begun").killed(chance, seconds) and interrupted(session, algorithm):
                kills, do = kills + 1, "RESUME MODEL m"
                seconds *= 1.1  # the one measured may have been faster, and one has to end
            for found, whole in zip(results(session, path), expected, strict=True):
                assert found.equals(whole)
