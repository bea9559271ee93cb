"""Columns that alone tell the label are told by TRAIN and EXPLAIN, too."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import xpsql
from tests.training.auto.logs import planted, written
from tests.training.auto.test_auto import Notes, with_leak
from xpsql.platform.training.metrics.alone import auc_of, auc_of_counts, told_by_counts

SAID = "Column clicked alone tells the label"


@pytest.mark.parametrize("leaks", [True, False])
def test_a_leak_is_noted_by_explain_and_by_training(tmp_path: Path, leaks: bool) -> None:
    table, notes = planted(3000), Notes()
    query = written(with_leak(table) if leaks else table, tmp_path / "log.parquet")
    with xpsql.connect(tmp_path / "warehouse", "duckdb", notes) as session:
        statement = f"TRAIN MODEL m USING xftrl TIME ts AS {query}"
        told = [row["value"] for row in session.sql(f"EXPLAIN FAST {statement}").arrow().to_pylist()]
        session.sql(statement)
    for texts in (told, notes.notes):
        assert any(text.startswith(SAID) for text in texts) == leaks
        assert not any("alone tells the label" in text and not text.startswith(SAID) for text in texts)


def test_the_curve_by_counts_is_that_of_the_rows() -> None:
    scores, ones, zeros = np.array([0.5, 0.1, 0.5, 0.9]), np.array([3, 1, 2, 5]), np.array([4, 6, 1, 1])
    rows = np.repeat(scores, ones + zeros)
    positive = np.concatenate([np.arange(up + down) < up for up, down in zip(ones, zeros, strict=True)])
    assert auc_of_counts(scores, ones, zeros) == pytest.approx(auc_of(positive, rows))


def test_values_that_hardly_recur_tell_nothing_by_their_counts() -> None:
    slots, shows = np.zeros(2000, np.uint16), np.ones(2000, np.int64)
    assert told_by_counts(slots, shows, (np.arange(2000) % 2).astype(np.int64)) == {}
