"""kill -9 at random moments of training, continuing and dropping: the old state or the new one, and the next command works."""

from __future__ import annotations

import os
import random
from pathlib import Path

import xpsql
from tests.cases import costly
from tests.training.forked import Training
from tests.training.log import log, write
from xpsql.platform.progress import SilentReporter

MOMENTS = 50 if "XPSQL_CHAOS" in os.environ else 12
SECONDS = 1.5
STATEMENTS = [
    "TRAIN OR REPLACE MODEL m USING xftrl WITH (batch_size = 256) AS SELECT label, user, item, tags, price FROM parquet.`{}`",
    "CONTINUE MODEL m AS SELECT label, user, item, tags, price FROM parquet.`{}`",
    "DROP MODEL m",
]


@costly
def test_kills_at_random_moments_leave_the_old_state_or_the_new_one(tmp_path: Path) -> None:
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    chance = random.Random(seed)
    path = write(log(20_000), tmp_path / "log.parquet", row_group_rows=4_000)
    query = f"(SELECT user, item, tags, price FROM parquet.`{path}` LIMIT 50)"
    warehouse = tmp_path / "warehouse"
    with xpsql.connect(warehouse, reporter=SilentReporter()) as session:
        for _ in range(MOMENTS):
            statements = [statement.format(path) for statement in STATEMENTS[: chance.randint(1, 3)]]
            done = Training(warehouse, statements, "connected").killed(chance, within_seconds=SECONDS)
            served = session.models.version("m").number if session.models.exists("m") else None
            if done and len(statements) < 3:
                assert served is not None, done
            if served is None:
                continue
            version = session.models.version("m")
            stored = sum(batch.num_rows for batch in version.rows("weights"))
            assert stored == version.manifest.learned.rows
            assert session.sql(f"SELECT count(*) AS n FROM ML.PREDICT(MODEL m, {query})").arrow()["n"].to_pylist() == [50]
        text = "TRAIN OR REPLACE MODEL m USING xftrl AS SELECT label, user FROM"
        assert session.sql(f"{text} parquet.`{path}`").arrow()["status"].to_pylist() == ["ready"]
        statuses = [v["status"] for v in session.sql("SHOW VERSIONS OF MODEL m").arrow().to_pylist()]
        assert statuses.count("ready") == 1
