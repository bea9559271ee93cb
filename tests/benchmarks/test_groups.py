"""Each group of benchmarks runs, on rows too few to mean anything."""

from __future__ import annotations

import pytest

from benchmarks import GROUPS
from benchmarks.__main__ import main

ALONE = {"streams": "confluent_kafka", "serving": "httptools", "spark": "pyspark"}


@pytest.mark.parametrize("group", GROUPS)
def test_a_quick_run_prints_figures_of_each_group(group: str, capfd: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip(ALONE.get(group, "numpy"))
    main(["--quick", "--only", group])
    heading, *lines = capfd.readouterr().out.strip().splitlines()
    assert heading == group
    assert len(lines) >= 5
    assert not any(line.endswith(("pass", "miss")) for line in lines), "a quick run is held to no target"
