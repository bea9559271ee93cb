"""The benchmark of long histories and sequences runs, on rows too few to mean anything; its logs are what they say."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from benchmarks import Figure, sequence_peers, sequences
from benchmarks.sequence_logs import EARLY, ITEMS, LONG, ordered_log, planted_log
from tests.cases import costly


@pytest.mark.parametrize("step", [pytest.param(one, marks=() if one == "order" else costly) for one in sequences.STEPS])
def test_a_quick_run_of_a_step_prints_figures_and_writes_none(
    step: str, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sequence_peers, "PEERS", str(tmp_path / "python"))
    sequences.main(["--quick", "--only", step, "--out", str(tmp_path / "found.json")])
    heading, *lines = capfd.readouterr().out.strip().splitlines()
    assert heading == step
    assert len(lines) >= 2
    assert all(line.startswith(step) for line in lines)
    assert not any(line.endswith(("pass", "miss")) for line in lines), "a quick run is held to no target"
    assert not (tmp_path / "found.json").exists()


def test_a_peer_that_cannot_be_had_is_told_and_left_out(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sequence_peers, "PEERS", "/nowhere/python")
    assert sequence_peers.beside("fuxictr", "SIM", "folder", 10, 1) is None
    assert "fuxictr SIM: left out" in capsys.readouterr().err


def test_figures_of_a_step_take_the_place_of_those_that_it_had(tmp_path: Path) -> None:
    path = tmp_path / "found.json"
    for step, what in (("planted", "planted, a: AUC"), ("long", "long: users"), ("long", "long: events of a user")):
        sequences.write(path, step, [Figure(what, 1.0, "")], "python")
    rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
    assert [row["what"] for row in rows] == ["planted, a: AUC", "long: events of a user"]


def test_the_planted_log_has_what_its_labels_tell_of_two_thousand_events_ago_and_never_since(tmp_path: Path) -> None:
    planted = planted_log(tmp_path, 8, 2_000)
    events, labels = (pq.read_table(path).to_pandas() for path in (planted.events, planted.labels))
    early = events[events["ts"] < EARLY]
    assert (early["item"].astype(int) < ITEMS).all()
    assert (events[events["ts"] >= EARLY]["item"].astype(int) >= ITEMS).all()
    assert LONG - EARLY >= 2_000
    had = set(zip(early["user"], early["category"], strict=True))
    told = [pair in had for pair in zip(labels["user"], labels["category"], strict=True)]
    assert np.mean(labels["click"] == told) == pytest.approx(0.9, abs=0.03)
    assert planted.best == pytest.approx(0.9, abs=0.03)


def test_an_item_of_the_ordered_log_follows_from_the_two_before_as_often_as_it_says(tmp_path: Path) -> None:
    best = ordered_log(tmp_path / "log.parquet", 2_000, 12, 6)
    items = pq.read_table(tmp_path / "log.parquet")["item"].to_numpy().astype(int).reshape(2_000, 12)
    most: dict[tuple[int, int], np.ndarray] = {}
    for row in items:
        for n in range(2, 12):
            most.setdefault((row[n - 2], row[n - 1]), np.zeros(6))[row[n]] += 1
    assert sum(one.max() for one in most.values()) / (2_000 * 10) == pytest.approx(best, abs=0.02)
