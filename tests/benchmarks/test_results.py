"""The runner's shape, and results as pages show them: one number, one place."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from benchmarks import GROUPS, Figure, ratio, spread
from benchmarks.__main__ import RESULTS, document, parse
from benchmarks.frappe import MD5
from benchmarks.log import calibration, make, scores
from benchmarks.peers import auc
from benchmarks.scale.__main__ import STEPS
from tests.cases import costly, lengthy

ROOT = Path(__file__).parents[2]
FIELDS = {"what", "value", "unit", "low", "high", "target", "peer"}
GROUP_FIELDS = {"group", "date", "commit", "machine", "command", "versions", "rows"}
DOCUMENTS = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(RESULTS.glob("*.json"))]


@pytest.mark.parametrize("group", GROUPS)
def test_a_group_yields_figures_and_has_targets_that_can_be_compared(group: str) -> None:
    module = import_module(f"benchmarks.{group}")
    assert callable(module.figures)
    assert [target for target in module.TARGETS.values() if not re.fullmatch(r"(>=|<=) [\d.]+", target)] == []


@pytest.mark.parametrize(
    "found", [*DOCUMENTS, document("new", [Figure("a", 1.0, "x")], "python")], ids=lambda one: one["group"]
)
def test_results_have_the_shape_that_pages_are_made_of(found: dict[str, object]) -> None:
    assert set(found) == GROUP_FIELDS
    assert set(found["machine"]) == {"cpu", "cores", "load", "os"}  # type: ignore[call-overload]
    rows = found["rows"]
    assert isinstance(rows, list)
    assert all(set(row) - {"date"} == FIELDS and isinstance(row["value"], int | float) for row in rows)
    assert len({row["what"] for row in rows}) == len(rows), "a figure has a name of its own"
    assert found["group"] in (
        *GROUPS,
        *(f"scale_{step}" for step in (*STEPS, "predictions")),
        "gpu",
        "sequences",
        "auto",
        *MD5,
        "gowalla",
        "new",
    )


def test_pages_show_the_results_as_they_are() -> None:
    done = subprocess.run([sys.executable, "docs/results.py", "--check"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def value(group: str, what: str) -> float:
    (found,) = (one for one in DOCUMENTS if one["group"] == group)
    (row,) = (row for row in found["rows"] if row["what"] == what)
    return float(row["value"])


def test_what_the_readme_says_of_speed_is_in_the_results() -> None:
    (line,) = (line for line in (ROOT / "README.md").read_text(encoding="utf-8").splitlines() if line.startswith("| Speed |"))
    said = re.findall(r"`(\w+)` (\d+)k (?:rows/s )?\(([\d.]+) times ([\w ]+)\)", line)
    assert len(said) == 3
    for name, thousands, times, peer in said:
        assert f"{value('training', f'{name}: one core') / 1000:.0f}" == thousands
        assert value("training", f"{name}: times {peer}") == pytest.approx(float(times), abs=0.0501)


def test_what_the_page_on_algorithms_says_of_speed_and_quality_is_in_the_results() -> None:
    text = (ROOT / "docs" / "algorithms.md").read_text(encoding="utf-8")
    said = re.findall(r"^\| `(\w+)` \| (0\.\d+) \| ([\d,]+) \|$", text, re.MULTILINE)
    assert len(said) >= 3
    for name, found, speed in said:
        assert f"{value('training', f'{name}: test AUC'):.4f}" == found
        assert f"{value('training', f'{name}: one core'):,.0f}" == speed


def test_a_figure_has_the_median_of_its_runs_and_a_verdict_by_its_target() -> None:
    figure = spread("f", [3.0, 1.0, 2.0], "s", target="<= 2")
    assert (figure.value, figure.low, figure.high, figure.verdict) == (2.0, 1.0, 3.0, "pass")
    assert figure._replace(value=2.5).verdict == "miss"
    assert figure._replace(target="").verdict == ""
    assert ratio("r", [2.0, 9.0], [1.0, 3.0]).value == 2.5, "runs in turns are compared in pairs"


def test_quick_figures_are_no_results() -> None:
    with pytest.raises(SystemExit):
        parse(["--quick", "--json"])


@lengthy
def test_a_log_is_the_same_for_the_same_seed_and_has_the_base_rate(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        make(tmp_path / folder, {"train": 3000}, seed=7)
    one, two = (pq.read_table(tmp_path / folder / "train.parquet") for folder in ("one", "two"))
    assert one.equals(two)
    assert 0.15 < one["label"].to_numpy().mean() < 0.25
    lines = (tmp_path / "one" / "train.vw").read_text().splitlines()
    assert len(lines) == 3000
    assert all(len(line.split()) == 1 + 2 * 39 for line in lines)


@costly
def test_a_label_depends_on_columns_and_on_pairs_of_them() -> None:
    truth = calibration(seed=7)
    linear, paired, _ = scores(7, 3, 50_000)
    clicked = truth.clicked(linear, paired)
    clicks = np.random.default_rng(0).random(len(clicked)) < clicked
    assert auc(clicks, clicked) == pytest.approx(0.8, abs=0.005)
    assert auc(clicks, linear) < 0.77


def test_auc_counts_ties_one_half() -> None:
    assert auc(np.array([True, False, True, False]), np.array([0.5, 0.5, 0.9, 0.1])) == 0.875
