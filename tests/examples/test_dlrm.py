"""The DLRM of examples/parameters learns, goes on after a restart, and commits a version that SQL reads."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

import xpsql

pytest.importorskip("torch")

DLRM = Path(__file__).parents[2] / "examples" / "parameters" / "dlrm.py"
NUMBERS = [f"CAST((id * {i + 3}) % 11 AS FLOAT) / 11 AS i{i}" for i in range(3)]
ROW = ", ".join([*NUMBERS, *(f"(id * {i + 7}) % 13 AS c{i}" for i in range(4))])
QUERY = f"SELECT CAST((id * 7) % 13 < 6 AS INT) AS label, {ROW} FROM range(0, 4096)"


def test_the_dlrm_learns_and_commits_rows_and_its_dense_part(warehouse: Path, session: xpsql.Session) -> None:
    train = runpy.run_path(str(DLRM))["train"]
    losses = train(warehouse, QUERY, 4)
    assert len(losses) == 4 * 16
    assert sum(losses[-8:]) < 0.5 * sum(losses[:8])
    assert train(warehouse, QUERY, 4)[:1] == []  # all batches are learned
    (rows, slots), *_ = session.sql("SELECT count(*), count(DISTINCT slot) FROM ML.WEIGHTS(MODEL dlrm)").fetchall()
    assert (rows, slots) == (4 * 13, 4)
    assert (session.models.version("dlrm").program / "dense.pt").exists()
