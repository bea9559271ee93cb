from __future__ import annotations

import io
import itertools
import re
from types import SimpleNamespace
from typing import Any

import pytest

from xpsql.platform.progress import BarReporter, LogReporter, NotebookReporter, Reporter, SilentReporter, reporter_for


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def work(reporter: Reporter) -> None:
    reporter.start("ctr v1", 1000)
    reporter.update(500, {"logloss": 0.5, "auc": 0.75})
    reporter.update(1000, {"logloss": 0.4, "auc": 0.8})
    reporter.finish("ctr v1 is ready.")


def test_log_lines_tell_rate_and_metrics_and_keep_their_distance() -> None:
    stream, times = io.StringIO(), iter([0.0, 10.0, 12.0])
    work(LogReporter(stream, interval_seconds=5.0, clock=lambda: next(times)))
    assert stream.getvalue().splitlines() == [
        "ctr v1: 1,000 examples",
        "ctr v1: 500 of 1,000 examples, 50/s, logloss 0.5000, auc 0.7500",
        "ctr v1 is ready.",
    ]


def test_a_bar_ends_with_its_message_alone() -> None:
    stream = Terminal()
    work(BarReporter(stream))
    assert "ctr v1 is ready." in stream.getvalue()


def test_a_bar_can_be_drawn_again_for_the_next_piece_of_work() -> None:
    stream = Terminal()
    reporter = BarReporter(stream)
    work(reporter)
    reporter.finish("")
    work(reporter)
    assert stream.getvalue().count("is ready.") == 2


def test_a_bar_shows_what_else_is_measured_below_it() -> None:
    stream = Terminal()
    reporter = BarReporter(stream)
    reporter.start("ctr v1", 1000)
    reporter.update(500, {"logloss": 0.5, "auc": 0.75, "gauc": 0.6, "features": 1200})
    reporter.finish("")
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", stream.getvalue())
    bar, below = next((first, second) for first, second in itertools.pairwise(shown.splitlines()) if "gauc" in second)
    assert "logloss 0.5000, auc 0.7500" in bar
    assert below.strip() == "gauc 0.6000, features 1,200"


def test_work_of_unknown_size_is_reported() -> None:
    stream = io.StringIO()
    reporter = LogReporter(stream, interval_seconds=0.0, clock=iter([1.0, 2.0]).__next__)
    reporter.start("ML.PREDICT", None)
    reporter.update(7, {})
    reporter.finish("")
    assert stream.getvalue() == "ML.PREDICT: 7 examples, 7/s\n"


def test_the_speed_of_work_that_goes_on_leaves_out_what_was_done_before() -> None:
    stream = io.StringIO()
    reporter = LogReporter(stream, interval_seconds=0.0, clock=iter([0.0, 10.0, 12.0]).__next__)
    reporter.start("ctr v1", 1000)
    reporter.go_on(800)
    reporter.update(900, {})
    assert stream.getvalue().splitlines()[-1] == "ctr v1: 900 of 1,000 examples, 50/s"


def test_a_bar_leaves_what_was_done_before_out_of_the_speed() -> None:
    stream = Terminal()
    reporter = BarReporter(stream)
    reporter.start("ctr v1", 1_000_000_000_000)
    reporter.go_on(800_000_000_000)
    reporter.update(800_000_000_001, {})
    reporter.finish("")
    shown = re.findall(r"([\d,]+) examples/s", stream.getvalue())
    assert shown
    assert all(int(rate.replace(",", "")) < 100_000_000 for rate in shown)


def test_a_notebook_gets_a_bar_that_its_message_replaces() -> None:
    shown: list[str] = []

    def display(data: dict[str, str], **options: Any) -> Any:
        shown.append(data["text/html"])
        return SimpleNamespace(update=display)

    work(NotebookReporter(display, clock=iter([0.0, 10.0, 10.1]).__next__))
    start, halfway, end = shown
    assert 'value="0.000"' in start
    assert 'value="0.500"' in halfway
    assert "ctr v1: 500 examples, 50/s, logloss 0.5000, auc 0.7500; 10 s passed, 10 s left" in halfway
    assert end == "<div>ctr v1 is ready.</div>"
    shown.clear()
    reporter = NotebookReporter(display, clock=iter([0.0, 0.1]).__next__)
    reporter.start("ML.PREDICT", None)
    reporter.update(1, {})
    reporter.finish("")
    assert not shown  # it was too short


def test_a_notebook_is_known_by_its_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    ipython = pytest.importorskip("IPython")
    for kernel, kind in ((None, LogReporter), (object(), NotebookReporter)):
        monkeypatch.setattr(ipython, "get_ipython", lambda kernel=kernel: SimpleNamespace(kernel=kernel))
        assert isinstance(reporter_for(io.StringIO(), quiet=False), kind)


@pytest.mark.parametrize(
    ("stream", "quiet", "kind"),
    [(Terminal(), False, BarReporter), (io.StringIO(), False, LogReporter), (Terminal(), True, SilentReporter)],
)
def test_the_reporter_suits_the_stream(stream: io.StringIO, quiet: bool, kind: type) -> None:
    assert isinstance(reporter_for(stream, quiet), kind)
