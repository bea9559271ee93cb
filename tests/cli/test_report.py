"""xpsql report: one page that needs no network, and draws what it says in a browser."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

import xpsql
from tests.training.log import log, write
from xpsql.platform.cli import main
from xpsql.platform.progress import SilentReporter

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    data = write(log(3000), folder / "log.parquet")
    clauses = "TIME ts OPERATORS (admit (min_count = 2), expire (after = '1 day')) EVALUATE EVERY 4 BATCHES ON 2 BATCHES"
    with xpsql.connect(folder / "warehouse", reporter=SilentReporter()) as session:
        session.sql(f"TRAIN MODEL m USING xftrl {clauses} WITH (batch_size = 100) AS SELECT * FROM parquet.`{data}`")
    output = folder / "report.html"
    done = CliRunner().invoke(main, ["report", "m", "-o", str(output), "--warehouse", str(folder / "warehouse")])
    assert done.exit_code == 0, done.output
    return output


def test_a_report_is_one_page_that_loads_nothing(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    body = re.sub(r"<script>.*?</script>", "", text, flags=re.DOTALL)
    assert not re.search(r"(src|href)\s*=|url\(|@import", body)
    for heading in ("Learning curve: logloss", "Learning curve: auc", "The life of rows", "Where the time went", "Calibration"):
        assert f"<h2>{heading}</h2>" in text
    assert "EVALUATE EVERY 4 BATCHES" in text
    assert "<td>operator 1</td><td>admit(min_count = 2)</td>" in text
    assert "<td>evaluate</td><td>EVERY 4 BATCHES ON 2 BATCHES</td>" in text
    assert "prefers-color-scheme: dark" in text


def test_a_report_of_no_model_names_it(tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["report", "m", "-o", str(tmp_path / "r.html"), "--warehouse", str(tmp_path)])
    assert done.exit_code == 1
    assert "There is no model m" in done.output
    assert not (tmp_path / "r.html").exists()


def test_a_page_that_cannot_be_written_is_one_line_that_names_it(page: Path) -> None:
    arguments = ["report", "m", "-o", str(page.parent / "absent" / "r.html"), "--warehouse", str(page.parent / "warehouse")]
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 1
    assert done.stderr == (
        f"Error: Cannot write the page to {page.parent / 'absent' / 'r.html'}: No such file or directory. Give -o a file in a "
        "folder that exists, that you may write and that has space.\n"
    )


@pytest.mark.skipif(not any(map(shutil.which, BROWSERS)), reason="no Chromium on this machine")
def test_a_browser_draws_every_plot(page: Path) -> None:
    browser = next(path for path in map(shutil.which, BROWSERS) if path)
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=8000", "--dump-dom"]
    shown = subprocess.run([browser, *flags, page.as_uri()], capture_output=True, text=True, timeout=60, check=True).stdout
    assert shown.count('class="main-svg"') >= 5
