"""Trainings that end well and learn nothing, as weights diverge or labels are all the same: they say so."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import xpsql
from tests.cases import costly_after_first, lengthy
from tests.notes import Notes
from tests.training.log import write

ROWS = 12_000


@costly_after_first
@pytest.mark.parametrize(
    ("use", "rate", "reported"),
    [
        ("xftrl", 0.3, None),
        ("xftrl (alpha = 100)", 0.3, "worse than the mean label 0.3"),
        ("logistic_regression (learning_rate = 50)", 0.3, "Lower the learning rate."),
        ("logistic_regression (learning_rate = 50, positive_weight = 9)", 0.3, None),
        ("xftrl (alpha = 100, loss = 'focal')", 0.3, None),
        ("fm WITH (batch_size = 1000)", 0.001, None),
        ("fm WITH (batch_size = 1000, base_rate = 0.5)", 0.001, "Lower the learning rate."),
    ],
)
def test_learning_that_is_worse_than_one_number_for_all_is_reported(
    tmp_path: Path, use: str, rate: float, reported: str | None
) -> None:
    random, notes = np.random.default_rng(0), Notes()
    users = pa.array(random.integers(0, 3000, ROWS).astype(str))
    path = write(pa.table({"label": np.arange(ROWS) % round(1 / rate) == 0, "user": users}), tmp_path / "log.parquet")
    with xpsql.connect(tmp_path / "warehouse", "duckdb", notes) as session:
        session.sql(f"TRAIN MODEL m USING {use} AS SELECT * FROM parquet.`{path}`")
    found = [note for note in notes.notes if "normalized_entropy" in note]
    assert len(found) == (reported is not None), found
    assert reported is None or reported in found[0]


@lengthy
@pytest.mark.parametrize("use", ["xftrl", "owlqn", "xnn"])
def test_labels_that_are_all_the_same_are_reported(tmp_path: Path, use: str) -> None:
    notes = Notes()
    with xpsql.connect(tmp_path, "duckdb", notes) as session:
        session.sql(f"TRAIN MODEL m USING {use} AS SELECT id AS x, id % 2 AS label FROM range(100)")
        assert notes.notes == []
        session.sql("CONTINUE MODEL m AS SELECT id AS x, 1 AS label FROM range(50)")
    assert [note.partition(":")[0] for note in notes.notes] == ["LABEL label is 1 in all 50 examples"]


def test_numbers_that_are_learned_as_they_are_are_named(tmp_path: Path) -> None:
    random, notes = np.random.default_rng(0), Notes()
    label, tags = random.random(ROWS) < 0.3, random.integers(0, 3000, ROWS)
    counts = pa.array([[(f"t{tag}", 1e4)] for tag in tags], pa.map_(pa.string(), pa.float64()))
    path = write(pa.table({"label": label, "counts": counts}), tmp_path / "log.parquet")
    with xpsql.connect(tmp_path / "warehouse", "duckdb", notes) as session:
        session.sql(f"TRAIN MODEL m USING xftrl AS SELECT * FROM parquet.`{path}`")
    (found,) = (note for note in notes.notes if "normalized_entropy" in note)
    assert "or divide the numbers of counts, which are learned as they are" in found
