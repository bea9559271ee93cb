"""Rounds that are kept: a training of a graph that is killed goes on behind the last of them, with the same bits."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import xpsql
from tests.cases import costly
from xpsql.algorithms.vertex_program import Values
from xpsql.platform.training.graphs.kept import KeptRounds, RoundDone
from xpsql.warehouse.draft import Draft

EDGES = "SELECT id % 997 AS src, (id * id + 3 * id) % 1009 AS dst FROM range(0, 20000)"
TRAIN = (
    "TRAIN MODEL m USING pagerank (rounds = 1500, tolerance = 0) SOURCE src TARGET dst "
    f"WITH (checkpoint_seconds = {{seconds}}) AS {EDGES}"
)
RUN = "import sys, xpsql; xpsql.connect(sys.argv[1]).sql(sys.argv[2])"
DEADLINE_SECONDS = 120.0


def ranks(session: xpsql.Session) -> list[tuple[object, ...]]:
    return session.sql("SELECT key, value FROM ML.WEIGHTS(MODEL m) ORDER BY key").fetchall()


@costly
def test_a_killed_training_goes_on_behind_the_round_that_was_kept(warehouse: Path, tmp_path: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", RUN, str(warehouse), TRAIN.format(seconds=1e-6)])
    kept = warehouse / "models" / "m" / "v1" / "checkpoints"
    deadline = time.monotonic() + DEADLINE_SECONDS
    while max((int(path.parent.name[-6:]) for path in kept.glob("*/manifest.json")), default=0) < 50:
        assert child.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    with xpsql.connect(warehouse) as session:
        session.sql("RESUME MODEL m")
        lines = [n for (n,) in session.sql("SELECT batch FROM ML.TRAINING_INFO(MODEL m) ORDER BY batch").fetchall()]
        found = ranks(session)
        assert not kept.exists()
    with xpsql.connect(tmp_path / "whole") as session:
        session.sql(TRAIN.format(seconds=0))
        assert ranks(session) == found
    assert sorted(set(lines) - {0}) == list(range(1, 1501))
    assert len(lines) < 1520  # the first fifty rounds were not made again


def values(rounds: int) -> Values:
    return np.arange(5) * rounds


@pytest.fixture
def draft(session: xpsql.Session) -> Draft:
    """Return a training of a graph that was interrupted before its first round."""
    session.sql(f"TRAIN MODEL m USING components SOURCE src TARGET dst AS {EDGES}")
    manifest = session.models.version("m").manifest
    return session.models.begin("m", manifest, True)


def kept(draft: Draft, notes: list[str], edges: int = 7, seconds: float = 1e-9) -> KeptRounds:
    return KeptRounds(draft, seconds, edges, np.arange(5, dtype=np.uint64), notes.append)


def test_the_last_round_that_is_whole_is_the_one_that_counts(draft: Draft) -> None:
    notes: list[str] = []
    assert kept(draft, notes).last() is None
    writer = kept(draft, notes)
    for rounds in (1, 2, 3):
        writer.after(RoundDone(rounds, values(rounds)))
    found = kept(draft, notes).last()
    assert found is not None
    assert (found.rounds, found.values.tolist()) == (3, values(3).tolist())
    kept(draft, notes).after(RoundDone(4, values(4)))  # of a second attempt, which overwrites none
    newest = sorted(Path(draft.checkpoints.place.path).glob("*/driver.state"))[-1]
    newest.write_bytes(b"x" * newest.stat().st_size)
    found = kept(draft, notes).last()
    assert found is not None
    assert found.rounds == 3
    assert any("is passed over" in note and "checksum" in note for note in notes)
    draft.discard()


def test_rounds_of_other_edges_are_told_and_not_gone_on_with(draft: Draft) -> None:
    notes: list[str] = []
    kept(draft, notes).after(RoundDone(1, values(1)))
    assert kept(draft, notes, edges=8).last() is None
    assert notes == ["The query returns other edges than before, so the rounds begin again."]
    draft.discard()


def test_without_checkpoints_none_is_kept(draft: Draft) -> None:
    kept(draft, [], seconds=0).after(RoundDone(1, values(1)))
    assert list(draft.checkpoints.complete()) == []
    draft.discard()
