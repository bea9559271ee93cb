"""Kills at each step of the end of a training: what the disk holds then is resumed, and ends as if nothing had happened.

A kill leaves what the disk holds at that moment. So a training runs once, and before each change of the disk at its end the
warehouse is copied: each copy is what a kill there leaves.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

import xpsql
from tests.training.log import log, write
from tests.training.processes import ProcessTasks
from xpsql.platform.input.batches import Batch
from xpsql.platform.progress import SilentReporter
from xpsql.platform.training.monitor import Monitor
from xpsql.warehouse.manifest import read_manifest

OFTEN = "batch_size = 100, workers = 1, checkpoint_seconds = 1000"
BEST = f"VALIDATE ON LAST 0.2 WITH (patience = 1, passes = 3, {OFTEN})"
CLICKS = "SELECT label, user, item FROM parquet.`{}`"
HAD = "SELECT item % 30 AS item, array((item + 7) % 30, (item + 14) % 30) AS had FROM parquet.`{}`"
TREE = "tdm (item = item, history = (had), hidden = (4), dim = 4, rebuild = 1, beam = 4)"
CASES = {
    "the last pass": (f"USING xftrl LABEL label WITH (passes = 2, {OFTEN})", CLICKS),
    "the best pass": (f"USING xftrl LABEL label {BEST}", CLICKS),
    "a network": (f"USING xnn (dim = 2, hidden = (4)) LABEL label {BEST}", CLICKS),
    "rounds": (f"USING {TREE} {BEST}", HAD),
    "solved": ("USING owlqn (l1 = 0.001) LABEL label", CLICKS),
    "solved by several penalties": ("USING owlqn LABEL label VALIDATE ON LAST 0.2", CLICKS),
    "packaged": ("USING xgboost (rounds = 2) LABEL label", CLICKS),
    "packaged by the best round": ("USING xgboost (rounds = 4) LABEL label VALIDATE ON LAST 0.2 WITH (patience = 2)", CLICKS),
}
ENDS = (
    "/v1/rows",
    "/v1/saved",
    "/v1/package",
    "/v1/tree",
    "/v1/dense",
    "/v1/best",
    "/v1/rounds",
    "/v1/.manifest",
    "/v1/manifest",
)
CHANGES = ("os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.link", "shutil.rmtree", "shutil.copyfile")


class Steps:
    """Copies of a folder before each change of it at the end of a training."""

    def __init__(self) -> None:
        self._source: Path | None = None
        self._busy = False
        self.copies: list[Path] = []
        self._seen: set[tuple[str, ...]] = set()

    def heard(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self._source is None or self._busy or not is_change(event, arguments):
            return
        path = str(arguments[0])
        if not path.startswith(str(self._source)) or not any(end in path for end in ENDS):
            return
        self._busy = True
        try:
            self.take()
        finally:
            self._busy = False

    def take(self) -> None:
        assert self._source is not None
        (manifest,) = map(read_manifest, self._source.glob("models/m/v1"))
        if not manifest.begun:
            return
        listing = tuple(f"{p} {p.lstat().st_size}" for p in sorted(self._source.rglob("*")))
        if listing in self._seen:
            return
        self._seen.add(listing)
        copy = self._source.with_name(f"{self._source.name}-{len(self.copies)}")
        shutil.copytree(self._source, copy)
        self.copies.append(copy)

    @contextmanager
    def of(self, source: Path) -> Iterator[None]:
        self._source, self.copies, self._seen = source, [], set()
        try:
            yield
        finally:
            self._source = None


def is_change(event: str, arguments: tuple[Any, ...]) -> bool:
    return event in CHANGES or (event == "open" and isinstance(arguments[2], int) and bool(arguments[2] & os.O_WRONLY))


STEPS = Steps()
sys.addaudithook(STEPS.heard)


def results(session: xpsql.Session) -> list[pa.Table]:
    """What a user sees of the model, but for times."""
    queries = (
        "SELECT * FROM ML.WEIGHTS(MODEL m) ORDER BY ALL",
        "SELECT * FROM ML.EVALUATE(MODEL m)",
        "SELECT * FROM ML.TRAINING_INFO(MODEL m) ORDER BY time",
    )
    *found, info = (session.sql(query).arrow() for query in queries)
    seen = [
        name for name in ("batch", "pass", "validation", "examples", "auc", "recall", "logloss") if name in info.column_names
    ]
    passes = info.filter(info["validation"]) if "validation" in info.column_names else info.slice(0, 0)
    return [*found, passes.select(seen), info.slice(info.num_rows - 1).select(seen)]


def rounded(table: pa.Table) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = table.to_pylist()
    return [{name: f"{value:.9g}" if isinstance(value, float) else value for name, value in row.items()} for row in rows]


def opened(warehouse: Path, tasks: bool, patch: pytest.MonkeyPatch) -> xpsql.Session:
    session = xpsql.connect(warehouse, reporter=SilentReporter())
    if tasks:
        patch.setattr(session.engine, "tasks", ProcessTasks(4), raising=False)
    return session


def try_kills(case: str, folder: Path, tasks: bool, most: int, patch: pytest.MonkeyPatch) -> None:
    """Resume what kills at the end of a training leave, and require the version of one that nobody killed.

    Args:
        tasks: it runs in processes of its own.
        most: how many kills are tried, spread over all.
    """
    path, (how, query) = write(log(1000), folder / "log.parquet", row_group_rows=250), CASES[case]
    with opened(folder / "warehouse", tasks, patch) as session:
        with STEPS.of(folder / "warehouse"):
            session.sql(f"TRAIN MODEL m {how} AS {query.format(path)}")
        expected, copies, resumed = results(session), STEPS.copies, 0
    for copy in copies[:: -(-len(copies) // most)]:
        with opened(copy, tasks, patch) as session:
            (version,) = session.models.versions("m")
            if version.manifest.status != "ready":
                resumed += 1
                session.sql("RESUME MODEL m")
                left = {folder.name for folder in version.folder.iterdir()}
                assert not left & {"best", "saved", "rounds", "checkpoints", "staged"}
            rows, *metrics = results(session)
            assert rows.equals(expected[0]), copy
            for found, whole in zip(metrics, expected[1:], strict=True):  # sums of the same numbers, in another order
                assert rounded(found) == rounded(whole), copy
    assert resumed


@pytest.mark.parametrize("case", CASES)
def test_a_training_that_is_killed_at_any_step_of_its_end_is_resumed_and_ends_the_same(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if case.startswith("packaged"):
        pytest.importorskip("xgboost")
    try_kills(case, tmp_path, False, 6, monkeypatch)


@pytest.mark.parametrize("case", ["the last pass", "the best pass"])
def test_a_training_on_tasks_whose_driver_is_killed_at_its_end_is_resumed_and_ends_the_same(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    try_kills(case, tmp_path, True, 2, monkeypatch)


def test_the_lines_of_a_pass_have_all_its_examples_though_it_was_resumed_in_the_middle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stop is an error at a batch of the second pass, after a checkpoint."""
    path, stops = write(log(1000), tmp_path / "log.parquet", row_group_rows=250), [True]
    step = Monitor.step

    def stopping(monitor: Monitor, batch: Batch, predictions: NDArray[np.float32]) -> None:
        step(monitor, batch, predictions)
        if stops and batch.id.pass_number == 1 and monitor.passes.examples >= 1500:
            stops.clear()
            raise KeyboardInterrupt

    monkeypatch.setattr(Monitor, "step", stopping)
    how, query = CASES["the last pass"]
    with xpsql.connect(tmp_path / "warehouse", reporter=SilentReporter()) as session:
        with pytest.raises(KeyboardInterrupt):
            session.sql(f"TRAIN MODEL m {how} AS {query.format(path)}")
        session.sql("RESUME MODEL m")
        info = session.sql("SELECT pass, max(examples) AS examples FROM ML.TRAINING_INFO(MODEL m) GROUP BY pass").arrow()
    assert {row["pass"]: row["examples"] for row in info.to_pylist()}[2] == 1000
