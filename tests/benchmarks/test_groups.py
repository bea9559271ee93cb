"""Each group of benchmarks runs, on rows too few to mean anything."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import GROUPS
from benchmarks.__main__ import main
from benchmarks.device_steps import steps
from benchmarks.log import make
from tests.cases import costly

ALONE = {"streams": "confluent_kafka", "serving": "httptools", "spark": "pyspark", "parameters": "torch"}


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("log")
    make(folder, {"train": 4000, "test": 1000}, seed=7)
    return folder


QUICK = {"training", "spark", "serving", "streams"}


@pytest.mark.parametrize("group", [pytest.param(one, marks=() if one in QUICK else costly) for one in GROUPS])
def test_a_quick_run_prints_figures_of_each_group(group: str, log: Path, capfd: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip(ALONE.get(group, "numpy"))
    main(["--quick", "--log", str(log), "--only", group])
    heading, *lines = capfd.readouterr().out.strip().splitlines()
    assert heading == group
    assert len(lines) >= 5
    assert not any(line.endswith(("pass", "miss")) for line in lines), "a quick run is held to no target"


@pytest.mark.parametrize("name", ["xnn", "din"])
def test_steps_on_a_device_run(name: str) -> None:
    assert [figure.value > 0 for figure in steps(name, 4, 64)] == [True] * 3
