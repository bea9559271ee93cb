"""Whatever the moment of a kill -9, models are in the state before a change or after it, and the next change works."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path

from xpsql.warehouse.models import Models

from .fill import train
from .kill import killed

ROUNDS = 50

CHANGES = """
import dataclasses, json, random, sys
import pyarrow.parquet
from pathlib import Path
from tests.warehouse.fill import MANIFEST, TABLE, fill, rows
from tests.warehouse.test_kill import state
from xpsql.warehouse.models import Models

models, chance = Models(Path(sys.argv[1])), random.Random(int(sys.argv[2]))
batch = rows(tuple((key, 0, 1, 1, 0, 0, 0.5) for key in range(20_000)))

def train(seed, replace, parent):
    manifest = dataclasses.replace(MANIFEST, seed=seed, parent=parent)
    with models.begin("ctr", manifest, replace) as draft:
        draft.staged.mkdir()
        (draft.staged / "part.parquet").write_bytes(b"x" * 100_000)
        draft.progress({"batch": 1})
        fill(draft, batch.slice(0, 100 + seed % 19_000))

print("ready")
while True:
    before = state(models)
    numbers = {v.manifest.seed: v.number for v in models.versions("ctr")} if before["seeds"] else {}
    change = chance.choice(["train", "train", "continue", "continue", "promote", "drop", "drop version"])
    seed, after = chance.randrange(1, 10**9), dict(before)
    if change == "train":
        after |= {"seeds": [seed], "served": seed}
        act = lambda: train(seed, True, None)
    elif not before["seeds"]:
        continue
    elif change == "continue":
        promoted = before["served"] if before["promoted"] else seed
        after |= {"seeds": [*before["seeds"], seed], "served": promoted}
        act = lambda: train(seed, False, numbers[before["seeds"][-1]])
    elif change == "promote":
        chosen = chance.choice(before["seeds"])
        after |= {"served": chosen}
        act = lambda: models.promote("ctr", numbers[chosen])
    elif change == "drop":
        after |= {"seeds": [], "served": None}
        act = lambda: models.drop("ctr")
    else:
        chosen = chance.choice(before["seeds"])
        left = [s for s in before["seeds"] if s != chosen]
        newest = left[-1] if left else None
        after |= {"seeds": left, "served": before["served"] if before["promoted"] and before["served"] != chosen else newest}
        act = lambda: models.drop("ctr", numbers[chosen])
    print(json.dumps([before, after]))
    act()
"""


def state(models: Models) -> dict[str, object]:
    """Return the seeds of the versions that can be used, and of the one served; each read to its last row."""
    versions = [v for v in models.versions("ctr") if v.manifest.status == "ready"] if "ctr" in models.names() else []
    for version in versions:
        assert sum(batch.num_rows for batch in version.rows("w")) == version.manifest.rows
    return {
        "seeds": [version.manifest.seed for version in versions],
        "served": next((version.manifest.seed for version in versions if version.served), None),
        "promoted": promoted(models.folder / "ctr" / "promoted.json") in {version.number for version in versions},
    }


def promoted(path: Path) -> int | None:
    return int(json.loads(path.read_text())["version"]) if path.exists() else None


def test_a_kill_at_any_moment_leaves_the_old_state_or_the_new_one_and_the_next_change_works(tmp_path: Path) -> None:
    seed = time.time_ns()
    print(f"seed {seed}")  # pytest shows it where the test fails
    chance = random.Random(seed)
    models = Models(tmp_path)
    for _ in range(ROUNDS):
        lines = killed(CHANGES, [str(tmp_path), str(chance.randrange(10**9))], chance, within_seconds=0.25)
        found = state(models)
        if lines:
            assert {k: found[k] for k in ("seeds", "served")} in [
                {k: s[k] for k in ("seeds", "served")} for s in json.loads(lines[-1])
            ]
        train(models, replace=True)
        assert {f.name.rstrip("0123456789") for f in (tmp_path / "models" / "ctr").iterdir()} <= {
            "lock",
            "model.json",
            "promoted.json",
            "v",
        }
        assert [f.name for f in (tmp_path / "models").iterdir()] == ["ctr"]
