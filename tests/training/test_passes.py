"""A version is judged by its first pass: in later ones the model has seen every example before."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

import xpsql
from tests.cases import costly_after_first, lengthy
from tests.training.processes import ProcessTasks
from xpsql.platform.errors import TrainingError
from xpsql.platform.progress import SilentReporter
from xpsql.platform.training import parallelism

ROWS, PASSES = 2000, 4
NOISE = "SELECT CAST(id AS STRING) AS x, CAST(pmod(xxhash64(id), 2) AS INT) AS label FROM range(2000) ORDER BY id"
"""Labels that nothing tells but the name of the row itself."""
TRAIN = (
    "TRAIN OR REPLACE MODEL m USING xftrl (alpha = 1) EVALUATE EVERY 5 BATCHES ON 5 BATCHES {release} "
    f"WITH (passes = {PASSES}, batch_size = 50, workers = 1) AS {NOISE}"
)


@pytest.fixture(params=["threads", "tasks"])
def session(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[xpsql.Session]:
    with xpsql.connect(tmp_path, reporter=SilentReporter()) as session:
        if request.param == "tasks":
            monkeypatch.setattr(session.engine, "tasks", ProcessTasks(4), raising=False)
            monkeypatch.setattr(parallelism, "BYTES_PER_SHARD", 1000)
        yield session


@lengthy
@costly_after_first
def test_a_version_that_recalls_its_examples_is_judged_by_the_first_pass(session: xpsql.Session) -> None:
    session.sql(TRAIN.format(release=""))
    (version,) = session.sql("SHOW VERSIONS OF MODEL m").arrow().to_pylist()
    assert version["examples"] == ROWS * PASSES
    assert version["auc"] < 0.6
    manifest = session.models.version("m").manifest
    assert manifest.metrics["examples"] == ROWS
    assert sum(part[2] for part in manifest.learned.calibration) == ROWS
    assert (manifest.evaluation["auc"] or 1) < 0.6
    lines = session.sql("SELECT pass, examples, auc FROM ML.TRAINING_INFO(MODEL m)").arrow().to_pylist()
    assert {line["pass"] for line in lines} == set(range(1, PASSES + 1))
    assert max(line["auc"] for line in lines if line["pass"] == PASSES) > 0.9
    with pytest.raises(TrainingError, match=r"RELEASE WHEN auc > 0\.6 is false"):
        session.sql(TRAIN.format(release="RELEASE WHEN auc > 0.6"))


class Updates(SilentReporter):
    """Keeps the names of what is told while a training runs."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def update(self, examples: int, metrics: Mapping[str, float]) -> None:
        self.names |= metrics.keys()


def test_progress_says_of_metrics_alone_that_rows_were_learned_before(tmp_path: Path) -> None:
    told = Updates()
    with xpsql.connect(tmp_path, reporter=told) as session:
        session.sql(TRAIN.format(release=""))
    assert {"features", "auc of rows learned before"} <= told.names
    assert "features of rows learned before" not in told.names
