"""The benchmarks run, on a log too small to mean anything."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from benchmarks import crosses, many_ids
from benchmarks.__main__ import held
from benchmarks.auc import auc
from benchmarks.figures import Figure
from benchmarks.log import calibration, make, scores

ROOT = Path(__file__).parents[2]


def test_a_quick_run_prints_the_figures_of_a_training(tmp_path: Path) -> None:
    pytest.importorskip("vowpalwabbit")
    command = [sys.executable, "-m", "benchmarks", "--quick", "--only", "training", "command", "deltas"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    for name in (
        "train, one core: times Vowpal Wabbit",
        "train: test AUC, xpsql",
        "train: commit",
        'xpsql sql "SELECT 1"',
        "deltas: CPU seconds to load it",
    ):
        assert f"\n{name} " in done.stdout


@pytest.mark.skipif(shutil.which("c++") is None, reason="needs a compiler")
def test_the_store_is_held_to_a_map_of_the_same_run() -> None:
    command = [sys.executable, "-m", "benchmarks.store", "--rows", "5000", "--batch", "500", "--rounds", "1", "--dims", "16"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    found = held((" ".join(words), float(value), unit) for *words, value, unit in map(str.split, done.stdout.splitlines()))
    by_name = {figure.name: figure for figure in found}
    for what in ("lookup 16 uniform", "lookup 16 zipf", "update 16 uniform", "update 16 zipf"):
        assert by_name[f"store: {what}"].target == by_name[f"store: std::unordered_map: {what}"].value > 0


def test_the_service_is_measured(tmp_path: Path) -> None:
    pytest.importorskip("httptools")
    make(tmp_path, [("train", 3000)], seed=7)
    command = [sys.executable, "-m", "benchmarks.serving", str(tmp_path / "train.parquet"), str(tmp_path / "warehouse"), "0.05"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    names = [line.split(maxsplit=2)[2] for line in done.stdout.splitlines()]
    assert len(names) == 1 + 3 + 3 * 2 * 2
    assert "JSON, one row: HTTP layer, a CPU second" in names
    assert "Arrow, 100 rows, 500 requests/s: p99" in names


def test_streams_are_measured(tmp_path: Path) -> None:
    make(tmp_path, [("train", 1000)], seed=7)
    figures: dict[str, float] = {}
    for module, rest in (("kafka", ["2"]), ("streams", ["--rate", "200", "--seconds", "6"])):
        command = [sys.executable, "-m", f"benchmarks.{module}", str(tmp_path / "train.parquet"), str(tmp_path / module), *rest]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240)
        assert done.returncode == 0, done.stderr
        figures |= {name: float(value) for value, _, name in (line.split(maxsplit=2) for line in done.stdout.splitlines())}
    assert "Kafka, JSON of 39 columns: events learned" in figures
    assert "a job that finds nothing new" in figures
    assert "PUBLISH EVERY 5 SECONDS: p99 from the broker to a version" in figures
    stood = {name for name in figures if "stood still" in name}  # for less than a millisecond, mostly
    assert len(stood) == 2
    assert all(value > 0 for name, value in figures.items() if name not in stood)


def test_round_trips_are_measured() -> None:
    command = [sys.executable, "-m", "benchmarks.round_trips", "xpsql"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    names = [line.split("; ")[1] for line in done.stdout.splitlines()]
    sizes = ("1.6 kB/0.8 kB", "160 kB/80 kB")
    assert names == [f"xpsql on {socket}, {size}" for socket in ("Unix", "TCP") for size in sizes]


def test_a_log_is_the_same_for_the_same_seed_and_has_the_base_rate(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        make(tmp_path / folder, [("train", 3000)], seed=7)
    one, two = (pq.read_table(tmp_path / folder / "train.parquet") for folder in ("one", "two"))
    assert one.equals(two)
    assert 0.15 < one["label"].to_numpy().mean() < 0.25
    lines = (tmp_path / "one" / "train.vw").read_text().splitlines()
    assert len(lines) == 3000
    assert all(len(line.split()) == 1 + 2 * 39 for line in lines)


def test_a_label_depends_on_columns_and_on_pairs_of_them() -> None:
    """Who knows both reaches the AUC that is promised, who knows columns alone does not."""
    truth = calibration(seed=7)
    linear, paired, _ = scores(7, 3, 50_000)
    clicked = truth.clicked(linear, paired)
    clicks = np.random.default_rng(0).random(len(clicked)) < clicked
    assert auc(clicks, clicked) == pytest.approx(0.8, abs=0.005)
    assert auc(clicks, linear) < 0.77


def test_auc_counts_ties_one_half() -> None:
    assert auc(np.array([True, False, True, False]), np.array([0.5, 0.5, 0.9, 0.1])) == 0.875


@pytest.mark.parametrize(
    ("value", "at_least", "verdict"), [(2.0, True, "pass"), (1.0, True, "miss"), (1.0, False, "pass"), (2.0, False, "miss")]
)
def test_a_figure_tells_whether_it_meets_its_target(value: float, at_least: bool, verdict: str) -> None:
    assert Figure("f", value, "x", 1.5, at_least).line().endswith(verdict)
    assert Figure("f", value, "x").verdict == ""


def test_rows_of_many_ids_have_as_many(tmp_path: Path) -> None:
    many_ids.make(tmp_path / "log.parquet", 300, 50)
    rows = pq.read_table(tmp_path / "log.parquet").to_pylist()
    assert len(rows) == 50
    assert {sum(len(row[f"s{n}"]) for n in range(many_ids.SLOTS)) for row in rows} == {300}


def test_a_cross_tells_the_label_and_neither_of_its_columns_does(tmp_path: Path) -> None:
    crosses.make(tmp_path, 5_000)
    log = pq.read_table(tmp_path / "crosses.parquet")
    lines = (tmp_path / "crosses.vw").read_text().splitlines()
    assert (len(lines), lines[0].startswith(("1 |a ", "-1 |a "))) == (5_000, True)
    label = log["label"].to_numpy()
    kinds = [np.char.partition(log[name].to_numpy().astype("U"), "-")[:, 0] for name in ("animal", "food")]
    likes = (kinds[0] == "grazer") == (kinds[1] == "plant")
    assert label[likes].mean() == pytest.approx(0.9, abs=0.03)
    assert label[~likes].mean() == pytest.approx(0.1, abs=0.03)
    assert all(label[kind == kind[0]].mean() == pytest.approx(0.5, abs=0.05) for kind in kinds)
