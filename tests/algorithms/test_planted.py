"""Data with planted interactions tells algorithms apart, where published logs give all of them the same metrics."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import xpsql
from benchmarks.planted import ROWS, TESTED, auc_of, planted
from tests.training.log import write
from xpsql.platform.progress import SilentReporter


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[xpsql.Session, Path]]:
    folder, table = tmp_path_factory.mktemp("planted"), planted()
    write(table.slice(0, ROWS), folder / "train.parquet", ROWS)
    write(table.slice(ROWS), folder / "test.parquet", TESTED)
    with xpsql.connect(folder / "warehouse", "duckdb", SilentReporter()) as session:
        yield session, folder


@pytest.mark.parametrize(
    ("label", "better", "worse", "margin"),
    [
        ("pair", ("fm", "ffm", "xnn"), ("xftrl",), 0.1),
        ("fields", ("ffm (dim = 2)",), ("fm (dim = 2)",), 0.02),
        ("fields", ("fm", "ffm"), ("xnn",), 0.03),
        ("triple", ("xnn", "deepfm", "dcn", "wide_deep"), ("fm", "ffm", "xftrl"), 0.4),
    ],
)
def test_algorithms_learn_the_interactions_that_they_are_made_for_and_no_others(
    log: tuple[xpsql.Session, Path], label: str, better: tuple[str, ...], worse: tuple[str, ...], margin: float
) -> None:
    session, folder = log
    high, low = ({name: auc_of(session, folder, name, label) for name in names} for names in (better, worse))
    assert min(high.values()) >= max(low.values()) + margin, (high, low)
