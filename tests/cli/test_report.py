"""xpsql report: one page that needs no network, and shows what it says."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner

import xpsql
from tests.cases import lengthy
from tests.training.log import log, write
from xpsql.platform.cli import main
from xpsql.platform.cli.charts import auc_interval, interval, merged, ticks
from xpsql.platform.errors import XpsqlError
from xpsql.platform.progress import SilentReporter

PAGES = (["m", "--version", "1"], ["--compare", "m", "other"], ["m", "--version", "1", "--version", "2", "-o", "two.html"])


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    data = write(log(3000), folder / "log.parquet")
    learn = "TIME ts OPERATORS (admit (min_count = 2), expire (after = '1 day')) EVALUATE EVERY 4 BATCHES ON 2 BATCHES BY site"
    columns = "label, ts, user, item, price, concat('<s', item % 2) AS site"
    query = f"WITH (batch_size = 100, passes = 2) AS SELECT {columns} FROM parquet.`{data}`"
    with xpsql.connect(folder / "warehouse", reporter=SilentReporter()) as session:
        session.sql(f"TRAIN MODEL m USING xftrl {learn} VALIDATE ON 0.1 RELEASE WHEN auc > 0.5 {query}")
        session.sql(f"CONTINUE MODEL m {query}")
        with pytest.raises(XpsqlError, match="held"):
            session.sql(
                f"TRAIN MODEL other USING fm TIME ts EVALUATE EVERY 4 BATCHES ON 2 BATCHES RELEASE WHEN auc > 0.999 {query}"
            )
        session.sql("ALTER MODEL other PROMOTE VERSION 1")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("XPSQL_WAREHOUSE", str(folder / "warehouse"))
        for arguments in PAGES:
            done = CliRunner().invoke(main, ["report", *arguments])
            assert done.exit_code == 0, done.output
        assert "write --compare m other" in CliRunner().invoke(main, ["report", "m", "other"]).output
    return folder / "m.html"


@lengthy
def test_a_report_is_one_small_page_that_loads_nothing(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert len(text) < 200_000
    assert not re.search(r"(src|href)\s*=|url\(|@import|<script", text)
    drawn = ["Learning curve: auc", "Learning curve: logloss", "Rows held out: auc", "Rows held out: logloss", "Drift", "ROC"]
    drawn += ["Calibration", "Predictions", "auc by site", "logloss by site", "The life of rows", "Where the time went"]
    drawn += ["Weights by slot", "Statement", "Options"]
    assert re.findall("<h2>(.*?)</h2>", text) == drawn
    assert text.count("<svg") == len(drawn) - 2
    assert "<b>Released.</b> RELEASE WHEN <code>auc &gt; 0.5</code> It had auc 0." in text
    assert "EVALUATE EVERY 4 BATCHES" in text
    assert "&lt;s1" in text
    assert re.search(r"intercept&#x27;s: v1 -?[0-9]", text)
    assert re.search(r'>auc</td><td class="number">(0\.\d{4}) \(0\.\d{4} to 0\.\d{4}\)', text)
    assert '<td class="name">operator 1</td><td>admit(min_count = 2)</td>' in text
    assert "prefers-color-scheme: dark" in text
    for svg in re.findall("<svg.*?</svg>", text):
        assert "nan" not in re.sub("<title>.*?</title>|<text.*?</text>", "", svg)
        ElementTree.fromstring(svg)


def test_versions_and_models_are_shown_side_by_side(page: Path) -> None:
    models, versions = ((page.parent / name).read_text(encoding="utf-8") for name in ("m-other.html", "two.html"))
    assert '<th class="number">m v2</th><th class="number">other v1</th>' in models
    assert re.search(r"other v1: Held, not released\.</b> RELEASE WHEN <code>auc &gt; 0\.999</code> It had auc 0\.", models)
    assert '<th class="number">v1</th><th class="number">v2</th>' in versions
    assert "Statement of v2" in versions
    (curve,) = re.findall(r"Learning curve: auc.*?</section>", models)
    assert set(re.findall(r'class="(c\d)"[^>]*><title>(m v2|other v1)', curve)) == {("c0", "m v2"), ("c1", "other v1")}


def test_parts_of_predictions_and_intervals_are_right() -> None:
    parts = [(0.1, 0.0, 10), (0.2, 0.5, 10), (0.3, 1.0, 20)]
    assert merged(parts, 2).tolist() == [[pytest.approx(0.15), 0.25, 20], [pytest.approx(0.3), 1.0, 20]]
    assert interval(0.5, 100) == pytest.approx((0.4038, 0.5962), abs=1e-4)
    assert auc_interval(0.8, 50, 50) == pytest.approx((0.7120, 0.8880), abs=2e-3)
    assert ticks(0, 1) == [0, 0.2, 0.4, 0.6, 0.8, 1]


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
