"""kill -9 around the gate: a version that is held is never served, and one that was released is never lost."""

from __future__ import annotations

import random
import time
from pathlib import Path

from xpsql.warehouse.models import Models

from .fill import train
from .kill import killed

KILLS = 20

# Makes versions whose condition is false and true by turns, as a training does once its metrics are known.
GATES = """
import dataclasses, sys
from pathlib import Path
from tests.warehouse.fill import MANIFEST, TABLE, rows
from xpsql.platform.flow.release import Condition, Node
from xpsql.warehouse.models import Models

models = Models(Path(sys.argv[1]))
condition = Condition("auc > 0.7", Node(">", parts=(Node("metric", "auc"), Node("number", 0.7))))
print("ready")
for turn in range(10_000):
    auc = 0.8 if turn % 2 else 0.6
    with models.begin("ctr", dataclasses.replace(MANIFEST, parent=models.version("ctr").number)) as draft:
        with draft.writer(TABLE) as writer:
            writer.write(rows())
        evaluation = {"auc": auc}
        status = "ready" if condition.failing(evaluation, None) is None else "held"
        print("known", draft.number, status)
        draft.commit(dataclasses.replace(draft.manifest, rows=3, evaluation=evaluation), status)
    print("done", draft.number, status)
"""


def test_a_kill_between_metrics_and_release_never_serves_what_is_held_nor_loses_what_was_released(tmp_path: Path) -> None:
    seed = time.time_ns()
    print(f"seed {seed}")  # pytest shows it where the test fails
    chance, models = random.Random(seed), Models(tmp_path)
    train(models)
    released = 1
    for _ in range(KILLS):
        lines = [line.split() for line in killed(GATES, [str(tmp_path)], chance, within_seconds=0.15)]
        for said, number, status in lines:
            released = int(number) if (said, status) == ("done", "ready") else released
        served = models.version("ctr")
        assert served.manifest.status == "ready"
        assert served.number >= released
        if served.number > 1:
            assert served.manifest.evaluation["auc"] == 0.8
        kept = {version.number: version.manifest.status for version in models.versions("ctr")}
        assert all(kept[int(number)] == status for said, number, status in lines if said == "done")
        assert all(sum(b.num_rows for b in v.rows("w")) == v.manifest.rows for v in models.versions("ctr") if v.served)
        released = served.number
