"""Scoring of queries whose filters leave nothing of some pieces of their input, or of all of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import xpsql
from xpsql.platform.progress import SilentReporter

NUMBERS = (
    "SELECT CAST(id AS INT) AS id, CAST(id % 2 AS INT) AS label, CAST(id % 7 AS STRING) AS x FROM range(200000) ORDER BY id"
)


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[xpsql.Session]:
    folder: Path = tmp_path_factory.mktemp("warehouse")
    with xpsql.connect(folder, reporter=SilentReporter()) as session:
        session.sql(f"CREATE TABLE numbers AS {NUMBERS}")
        session.sql("TRAIN MODEL m USING xftrl IGNORE (id) AS SELECT * FROM numbers WHERE id < 20000")
        yield session


def test_pieces_without_rows_are_passed_over(session: xpsql.Session) -> None:
    found = session.sql(
        "SELECT id, predicted_label FROM ML.PREDICT(MODEL m, (SELECT * FROM numbers WHERE id >= 199990))"
    ).arrow()
    assert found.column("id").to_pylist() == list(range(199_990, 200_000))
    (row,) = (
        session.sql("SELECT examples FROM ML.EVALUATE(MODEL m, (SELECT * FROM numbers WHERE id >= 199990))").arrow().to_pylist()
    )
    assert row == {"examples": 10}


def test_no_rows_give_no_predictions(session: xpsql.Session) -> None:
    found = session.sql("SELECT * FROM ML.PREDICT(MODEL m, (SELECT * FROM numbers WHERE id < 0))").arrow()
    assert (found.num_rows, found.column_names) == (0, ["id", "label", "x", "predicted_label"])
