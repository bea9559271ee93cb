"""Whatever the moment of a kill -9, models are in the state before a change or after it, and the next change works."""

from __future__ import annotations

import dataclasses
import json
import random
import time
from collections.abc import Callable
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tests.cases import lengthy
from tests.warehouse.fill import MANIFEST, fill, rows, train
from tests.warehouse.kill import killed
from xpsql.warehouse.models import Models

ROUNDS = 50


def changes(tell: Connection, folder: Path, seed: int) -> None:
    """Change models for ever; tell of each change the states before and after it."""
    models, chance = Models(folder), random.Random(seed)
    batch = rows(tuple((key, 0, 1, 1, 0, 0, 0.5) for key in range(20_000)))

    def add(seed: int, replace: bool, parent: int | None) -> None:
        manifest = dataclasses.replace(MANIFEST, settings={"seed": seed}, parent=parent)
        with models.begin("ctr", manifest, replace) as draft:
            draft.staged.mkdir()
            (draft.staged / "part.parquet").write_bytes(b"x" * 100_000)
            draft.progress({"batch": 1})
            fill(draft, batch.slice(0, 100 + seed % 19_000))

    tell.send("ready")
    while True:
        before = state(models)
        numbers = {v.manifest.seed: v.number for v in models.versions("ctr")} if before["seeds"] else {}
        change = chance.choice(["train", "train", "continue", "continue", "promote", "drop", "drop version"])
        seed, after = chance.randrange(1, 10**9), dict(before)
        act: Callable[[], object]
        if change == "train":
            after |= {"seeds": [seed], "served": seed}
            act = partial(add, seed, True, None)
        elif not before["seeds"]:
            continue
        elif change == "continue":
            after |= {"seeds": [*before["seeds"], seed], "served": before["served"] if before["promoted"] else seed}
            act = partial(add, seed, False, numbers[before["seeds"][-1]])
        elif change == "promote":
            chosen = chance.choice(before["seeds"])
            after |= {"served": chosen}
            act = partial(models.promote, "ctr", numbers[chosen])
        elif change == "drop":
            after |= {"seeds": [], "served": None}
            act = partial(models.drop, "ctr")
        else:
            chosen = chance.choice(before["seeds"])
            left = [s for s in before["seeds"] if s != chosen]
            kept = before["promoted"] and before["served"] != chosen
            after |= {"seeds": left, "served": before["served"] if kept else left[-1] if left else None}
            act = partial(models.drop, "ctr", numbers[chosen])
        tell.send([before, after])
        act()


def state(models: Models) -> dict[str, Any]:
    """Return the seeds of the versions that can be used, and of the one served; each read to its last row."""
    versions = [v for v in models.versions("ctr") if v.manifest.status == "ready"] if "ctr" in models.names() else []
    for version in versions:
        assert sum(batch.num_rows for batch in version.rows("w")) == version.manifest.learned.rows
    return {
        "seeds": [version.manifest.seed for version in versions],
        "served": next((version.manifest.seed for version in versions if version.served), None),
        "promoted": promoted(models.folder / "ctr" / "promoted.json") in {version.number for version in versions},
    }


def promoted(path: Path) -> int | None:
    return int(json.loads(path.read_text())["version"]) if path.exists() else None


@lengthy
def test_a_kill_at_any_moment_leaves_the_old_state_or_the_new_one_and_the_next_change_works(tmp_path: Path) -> None:
    seed = time.time_ns()
    print(f"seed {seed}")  # pytest shows it where the test fails
    chance = random.Random(seed)
    models = Models(tmp_path)
    for _ in range(ROUNDS):
        reported = killed(changes, [tmp_path, chance.randrange(10**9)], chance, within_seconds=0.25)
        found = state(models)
        if reported:
            assert [found["seeds"], found["served"]] in [[one["seeds"], one["served"]] for one in reported[-1]]
        train(models, replace=True)
        assert {f.name.rstrip("0123456789") for f in (tmp_path / "models" / "ctr").iterdir()} <= {
            "lock",
            "model.json",
            "promoted.json",
            "v",
        }
        assert [f.name for f in (tmp_path / "models").iterdir()] == ["ctr"]
