"""Rows of what users took, for two towers here and in PyTorch."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import xpsql
from benchmarks import towers
from benchmarks.figures import Figure, Note
from benchmarks.peers import figures
from benchmarks.process import Measured
from xpsql.platform.progress import SilentReporter

ROWS = 600


def test_two_towers_learn_the_rows_and_stand_beside_pytorch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "towers.parquet"
    towers.make(path, ROWS, seed=1)
    rows = pq.read_table(path).to_pylist()
    assert all(row["category"] == row["item"] % towers.CATEGORIES for row in rows)
    assert {len(row["history"]) for row in rows} == set(range(1, towers.LONGEST + 1))
    kinds = [np.bincount(np.array([row["item"], *row["history"]]) % towers.CATEGORIES).max() for row in rows]
    assert np.mean(kinds) > 3, "a user has a taste"
    with xpsql.connect(tmp_path / "warehouse", reporter=SilentReporter()) as session:
        (learned,) = session.sql(towers.TOWERS.format(batch=256, data=path)).arrow().to_pylist()
    assert learned["examples"] == ROWS
    monkeypatch.setattr(figures, "lacking", lambda name: None)
    peer = Measured(0, 0, 0, '{"seconds": 12.0, "learning": 8.0, "cpu_seconds": 9.0}\n')
    monkeypatch.setattr(figures, "measure", lambda command: peer)
    found = list(figures.towers_beside("towers", (str(path), "256"), Measured(4.0, 2.0, 0, ""), 1.0, 2))
    assert [line.value for line in found if isinstance(line, Figure)] == [3.0, 4.5, 8.0]
    monkeypatch.setattr(figures, "lacking", lambda name: "no torch")
    assert list(figures.towers_beside("towers", (str(path), "256"), peer, 1.0, 2)) == [Note("towers: not installed (no torch)")]
