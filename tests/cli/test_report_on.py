"""xpsql report --on: versions measured on the same rows, with the interval of their difference."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import xpsql
from tests.training.log import log, write
from xpsql.platform.cli import main
from xpsql.platform.progress import SilentReporter
from xpsql.platform.training.metrics.passes import told_of


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("report")
    data = write(log(2000), found / "log.parquet")
    with xpsql.connect(found / "warehouse", reporter=SilentReporter()) as session:
        for name, columns in (("m", "label, user, item"), ("other", "label, price")):
            session.sql(f"TRAIN MODEL {name} USING xftrl LABEL label AS SELECT {columns} FROM parquet.`{data}`")
    return found


def reported(folder: Path, *arguments: str) -> tuple[Any, str]:
    query = f"SELECT label, user, item, price FROM parquet.`{folder / 'log.parquet'}`"
    page = folder / "page.html"
    given = ["report", *arguments, "-o", str(page), "--warehouse", str(folder / "warehouse")]
    done = CliRunner().invoke(main, [*given, "--on", query])
    return done, page.read_text(encoding="utf-8") if page.exists() else ""


def test_two_models_are_compared_on_the_same_rows_with_intervals(folder: Path) -> None:
    done, text = reported(folder, "--compare", "m", "other")
    assert done.exit_code == 0, done.output
    section = re.search(r"<section><h2>On given rows</h2>.*?</section>", text, re.S)
    assert section is not None
    cells = re.findall(r"<t[hd][^>]*>([^<]*)<", section[0])
    lines = [cells[i : i + 8] for i in range(8, len(cells), 8)]
    assert cells[:8] == ["metric", "", "value", "m v1", "difference", "low", "high", "examples"]
    assert [line[:2] for line in lines] == [["auc", "other v1"], ["logloss", "other v1"]]
    value, first, difference, low, high = map(float, lines[0][2:7])
    assert difference == pytest.approx(value - first, abs=1e-5)
    assert low <= difference <= high < 0  # price alone ranks worse, beyond chance
    assert lines[0][7] == "2,000"


def test_one_model_is_measured_on_the_rows(folder: Path) -> None:
    done, text = reported(folder, "m")
    assert done.exit_code == 0, done.output
    assert re.search(r"<td>examples</td><td class=\"number\">2,000</td>", text)
    assert re.search(r"<td>ece</td><td class=\"number\">0\.\d+</td>", text)


def test_rows_that_cannot_be_measured_write_no_page(folder: Path) -> None:
    done = CliRunner().invoke(
        main,
        ["report", "m", "-o", str(folder / "none.html"), "--warehouse", str(folder / "warehouse"), "--on", "SELECT 1 AS x"],
    )
    assert (done.exit_code, (folder / "none.html").exists()) == (1, False)
    assert "user" in done.stderr


def test_progress_of_later_passes_says_that_rows_were_learned_before() -> None:
    assert told_of(0, {"auc": 0.7}) == {"auc": 0.7}
    assert told_of(1, {"auc": 0.9}) == {"pass": 2, "auc of rows learned before": 0.9}


def test_a_report_shows_the_slots_that_moved_since_the_version_before(folder: Path, tmp_path: Path) -> None:
    warehouse = tmp_path / "warehouse"
    with xpsql.connect(warehouse, reporter=SilentReporter()) as session:
        path = folder / "log.parquet"
        session.sql(f"TRAIN MODEL m USING xftrl LABEL label AS SELECT label, item, price FROM parquet.`{path}`")
        session.sql(f"CONTINUE MODEL m AS SELECT label, item, price * 100 AS price FROM parquet.`{path}`")
    page = tmp_path / "page.html"
    done = CliRunner().invoke(main, ["report", "m", "-o", str(page), "--warehouse", str(warehouse)])
    assert done.exit_code == 0, done.output
    section = re.search(r"<section><h2>Drift of rows</h2>.*?</section>", page.read_text(encoding="utf-8"), re.S)
    assert section is not None
    assert "How far the rows that v2 learned are from those of v1" in section[0]
    slots = re.findall(r"<title>([^<]*)</title></text>", section[0])
    assert slots[0] == "price"
    assert re.search(r"<title>divergence: 0\.9\d+, by chance 0\.0\d+</title>", section[0])
