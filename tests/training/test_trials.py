"""Features that have to earn their rows, over many batches."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import xpsql
from tests.cases import costly, costly_after_first, lengthy
from tests.training.log import write
from xpsql.platform.progress import SilentReporter

BATCHES, BATCH = 300, 16
ADMIT = "admit (utility > 0.5, slots = (user))"


def seldom(path: Path) -> Path:
    """Write a log in which the user 'fan' is once in each batch and always clicks, among users who are seen once."""
    rows = BATCHES * BATCH
    fan = np.arange(rows) % BATCH == 0
    user = np.where(fan, "fan", np.char.add("once", np.arange(rows).astype(str)))
    label = np.where(fan, 1, np.random.default_rng(3).integers(0, 2, rows))
    return write(pa.table({"user": user.tolist(), "label": label.astype(np.int32)}), path)


def users(session: xpsql.Session, model: str) -> list[dict[str, float]]:
    rows = session.sql(f"SELECT * FROM ML.WEIGHTS(MODEL {model}) WHERE slot = 'user'").arrow().to_pylist()
    return [row for row in rows if row.get("table", "weights") == "weights"]


@lengthy
@costly_after_first
@pytest.mark.parametrize("algorithm", ["xftrl (alpha = 0.1)", "fm (dim = 2, alpha = 0.1)"])
def test_a_feature_gets_a_row_by_what_it_has_earned_in_many_batches(tmp_path: Path, algorithm: str) -> None:
    path = seldom(tmp_path / "log.parquet")
    train = f"TRAIN MODEL m USING {algorithm} OPERATORS ({ADMIT}) WITH (batch_size = {BATCH}) AS SELECT * FROM parquet.`{path}`"
    with xpsql.connect(tmp_path / "warehouse", "duckdb", SilentReporter()) as session:
        session.sql(train)
        rows = users(session, "m")
        assert [(row["count"], row["shows"], row["clicks"], row["updates"]) for row in rows] == [(BATCHES,) * 4]
        assert rows[0]["utility"] > 0.5


@costly
def test_what_features_have_earned_goes_with_the_version(tmp_path: Path) -> None:
    """With the log cut before anything is admitted, and the two halves learned as one."""
    path = seldom(tmp_path / "log.parquet")
    begin, rest = (f"SELECT user, label FROM parquet.`{tmp_path}/{part}.parquet`" for part in ("begin", "rest"))
    log = pq.read_table(path)
    cut = 5 * BATCH
    write(log.slice(0, cut), tmp_path / "begin.parquet")
    write(log.slice(cut), tmp_path / "rest.parquet")
    with xpsql.connect(tmp_path / "warehouse", "duckdb", SilentReporter()) as session:
        how = f"USING xftrl (alpha = 0.1) OPERATORS ({ADMIT}) WITH (batch_size = {BATCH})"
        session.sql(f"TRAIN MODEL m {how} AS {begin}")
        assert users(session, "m") == []
        session.sql(f"CONTINUE MODEL m AS {rest}")
        (row,) = users(session, "m")
        assert (row["count"], row["shows"], row["updates"]) == (BATCHES,) * 3
        session.sql("SHRINK MODEL m WHERE count > 1000")
        session.sql(f"CONTINUE MODEL m AS {begin}")
        assert len(users(session, "m")) == 1
