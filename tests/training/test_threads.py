"""One worker on many cores: the same bits, however many there are."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pytest

import xpsql
from tests.cases import quick
from tests.training.log import write
from xpsql.platform.cores import MOST_ENCODERS, encoders
from xpsql.platform.progress import SilentReporter

ROWS, GROUP, BATCH, SLOTS = 9000, 2600, 2048, 16
TRAININGS = {
    "xftrl": f"xftrl LABEL click IGNORE (buy, seen) WITH (batch_size = {BATCH})",
    "fm": f"fm LABEL click IGNORE (buy, seen) WITH (batch_size = {BATCH})",
    "ffm": f"ffm LABEL click IGNORE (buy, seen) WITH (batch_size = {BATCH})",
    "xnn": f"xnn (dim = 16) LABEL click IGNORE (buy) WITH (batch_size = {BATCH})",
    "din": f"din (target = (s0), history = (seen)) LABEL click IGNORE (buy) WITH (batch_size = {BATCH}, share = (seen AS s0))",
    "multi_task": f"multi_task LABEL click, buy IGNORE (seen) WITH (batch_size = {BATCH})",
}


@pytest.fixture(scope="module")
def clicks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log with more rows of each slot in a batch than a thread takes at a time."""
    random = np.random.default_rng(4)
    slots = {f"s{n}": [f"{value}" for value in random.integers(0, 200 * (n + 1), ROWS)] for n in range(SLOTS)}
    click = random.integers(0, 2, ROWS)
    seen = [[f"{value}" for value in random.integers(0, 200, length)] for length in random.integers(0, 6, ROWS)]
    table = pa.table({"click": click, "buy": click * random.integers(0, 2, ROWS), "seen": seen, **slots})
    return write(table, tmp_path_factory.mktemp("clicks") / "log.parquet", row_group_rows=GROUP)


class Learned(NamedTuple):
    """The files of a version's rows and layers, and its metrics."""

    files: Mapping[str, bytes]
    metrics: Mapping[str, float]


def learned(using: str, log: Path, cores: int, warehouse: Path, monkeypatch: pytest.MonkeyPatch) -> Learned:
    """Learn on so many cores."""
    with monkeypatch.context() as patch, xpsql.connect(warehouse, reporter=SilentReporter()) as session:
        patch.setattr(os, "sched_getaffinity", lambda pid: set(range(cores)), raising=False)
        session.sql(f"TRAIN MODEL m USING {using} AS SELECT * FROM parquet.`{log}`")
        version = session.models.version("m")
        assert version.manifest.sizes.workers == 1
        paths = [path for place in ("rows", "dense") for path in files_of(version.folder / place)]
        files = {path.relative_to(version.folder).as_posix(): path.read_bytes() for path in paths}
        return Learned(files, {name: value for name, value in version.manifest.metrics.items() if value is not None})


def files_of(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("name", quick(TRAININGS, [*TRAININGS][:2]))
def test_a_version_is_the_same_bits_on_one_two_four_and_eight_cores(
    name: str, clicks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, *others = (learned(TRAININGS[name], clicks, n, tmp_path / str(n), monkeypatch) for n in (1, 2, 4, 8))
    assert any(name.endswith(".parquet") for name in one.files)
    for other in others:
        assert other.files == one.files
        assert other.metrics == pytest.approx(one.metrics, rel=1e-12)  # of sums that are added up whenever progress is told


@pytest.mark.parametrize(("cores", "workers", "threads"), [(1, 1, 1), (2, 1, 2), (64, 1, MOST_ENCODERS), (64, 2, 1)])
def test_one_worker_has_its_log_encoded_on_many_cores(
    cores: int, workers: int, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(cores)), raising=False)
    assert encoders(workers) == threads
