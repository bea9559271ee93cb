"""kill -9 of trainings around the gate: a version that is held is never served, and one that was released is never lost."""

from __future__ import annotations

import random
from pathlib import Path

import xpsql
from tests.training.forked import Training
from tests.training.log import log, write
from xpsql.platform.progress import SilentReporter
from xpsql.warehouse.models import Models
from xpsql.warehouse.version import Version

KILLS = 12
MOST_TRIES = 40
RELEASED, HELD = "auc > 0", "auc > 2"
TRAIN = "{} MODEL m {} EVALUATE EVERY 3 BATCHES ON 1 BATCHES RELEASE WHEN {} {} AS SELECT label, user, item FROM parquet.`{}`"


def trained(first: bool, gate: str, path: Path) -> str:
    """Return the statement of a training with a gate: a new one, or one that goes on."""
    options = "WITH (batch_size = 100, checkpoint_seconds = 0.05)"
    return TRAIN.format(*(("TRAIN OR REPLACE", "USING xftrl") if first else ("CONTINUE", "")), gate, options, path)


def check(versions: list[Version], released: int) -> int:
    """Require that what is served was released, and that nothing released was lost; return what is served.

    Args:
        released: what was served before.
    """
    for version in versions:
        allowed = "ready" if version.manifest.clauses["RELEASE"] == RELEASED else "held"
        assert version.manifest.status in (allowed, "interrupted", "failed")
    (served,) = [version for version in versions if version.served]
    assert served.number == max(version.number for version in versions if version.manifest.status == "ready")
    assert served.number >= released
    assert sum(batch.num_rows for batch in served.rows("weights")) == served.manifest.learned.rows
    return served.number


def test_a_kill_between_metrics_and_release_never_serves_what_is_held_nor_loses_what_was_released(tmp_path: Path) -> None:
    """What a killed process leaves is looked at by this one, and the next training, of another one, has to work."""
    seed = random.randrange(10**6)
    print(f"seed {seed}")  # pytest shows it where the test fails
    chance, warehouse = random.Random(seed), tmp_path / "warehouse"
    path, models = write(log(1000), tmp_path / "log.parquet"), Models(warehouse)
    whole = [[trained(first, gate, path)] for first, gate in ((True, RELEASED), (False, RELEASED), (False, HELD))]
    longest = max(seconds for one in whole for _, seconds in Training(warehouse, one, "known").ended())
    served, landed = check(models.versions("m"), 2), {"before": 0, "after": 0, "too late": 0}
    while landed["before"] + landed["after"] < KILLS or not (landed["before"] and landed["after"]):
        assert sum(landed.values()) < MOST_TRIES, landed
        statement = trained(chance.random() < 0.3, chance.choice([RELEASED, HELD]), path)
        if models.versions("m")[-1].manifest.status == "interrupted" and chance.random() < 0.5:
            statement = "RESUME MODEL m"
        ends = Training(warehouse, [statement], "known").killed(chance, longest)
        versions = models.versions("m")
        served, newest = check(versions, served), versions[-1].manifest.status
        assert [status for status, _ in ends] in ([], [newest])
        longest *= 0.9 if ends else 1  # those measured may have been slower, beside other work
        landed["too late" if ends else "before" if newest == "interrupted" else "after"] += 1
    print(landed)
    with xpsql.connect(warehouse, "duckdb", SilentReporter()) as session:
        session.sql(trained(False, RELEASED, path))
        assert check(models.versions("m"), served) > served
        query = f"(SELECT user, item FROM parquet.`{path}`)"
        assert session.sql(f"SELECT count(*) AS n FROM ML.PREDICT(MODEL m, {query})").arrow()["n"].to_pylist() == [1000]
