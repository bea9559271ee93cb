"""How many tasks statements ask for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import xpsql
from tests.cases import lengthy
from xpsql.platform.training import parallelism
from xpsql.platform.training.clauses.settings import Settings
from xpsql.platform.training.parallelism import BYTES_PER_SHARD, Places, in_step, places_of, scoring_places
from xpsql.warehouse.models import Models


class Slots:
    """Tasks of which so many run at once."""

    def __init__(self, count: int) -> None:
        self.count = count

    def slots(self, least: int, gang: bool) -> int:
        return self.count


@pytest.mark.parametrize(
    ("slots", "weight_bytes", "turns", "expected"),
    [
        (64, 1000, 100, Places(1, 48)),
        (64, 3 * BYTES_PER_SHARD, 100, Places(4, 48)),
        (64, 10**12, 100, Places(16, 48)),
        (64, 1000, 3, Places(1, 3)),
        (8, 10**12, 100, Places(2, 6)),
        (2, 10**12, 0, Places(1, 1)),
    ],
)
def test_a_prediction_has_shards_for_its_model_and_workers_for_its_input(
    slots: int, weight_bytes: int, turns: int, expected: Places
) -> None:
    tasks: Any = Slots(slots)
    assert scoring_places(tasks, weight_bytes, turns) == expected


@pytest.mark.parametrize(
    ("sync", "places", "expected"),
    [
        ("bsp", Places(1, 2), True),
        ("hybrid", Places(1, 2), True),
        ("asp", Places(2, 1), True),
        ("ssp", Places(3, 1), True),
        ("asp", Places(1, 1), False),
        ("asp", Places(2, 2), False),
        ("ssp", Places(2, 2), False),
    ],
)
def test_the_shards_of_one_worker_stand_at_one_step_whatever_sync_is(sync: str, places: Places, expected: bool) -> None:
    assert in_step(Settings(sync=sync), places) is expected


@pytest.mark.parametrize(
    ("cores", "settings", "serves", "expected"),
    [
        (1, Settings(), True, Places(1, 1)),
        (2, Settings(), True, Places(1, 1)),
        (16, Settings(), True, Places(1, 1)),
        (16, Settings(workers=3, shards=2), True, Places(2, 3)),
        (16, Settings(sync="bsp"), True, Places(1, 1)),
        (16, Settings(), False, Places(0, 16)),
    ],
)
def test_one_process_has_one_worker_and_as_many_as_cores_where_results_do_not_depend_on_them(
    cores: int, settings: Settings, serves: bool, expected: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parallelism, "cores", lambda: cores)
    assert places_of(settings, None, serves) == expected


@lengthy
def test_a_training_in_one_process_has_one_worker_unless_the_statement_asks_for_more(tmp_path: Path) -> None:
    with xpsql.connect(tmp_path) as session:
        session.sql("CREATE TABLE log AS SELECT CAST(id % 3 = 0 AS INT) AS click, id % 40 AS ad FROM range(1600)")
        for _ in range(3):  # each is a file, and a split of its own
            session.sql("INSERT INTO log SELECT CAST(id % 3 = 0 AS INT), id % 40 FROM range(1000)")
        session.sql("TRAIN MODEL m USING xftrl LABEL click AS SELECT * FROM log")
        session.sql("TRAIN MODEL vectors USING fm LABEL click WITH (workers = 2) AS SELECT * FROM log")
    for name, workers in (("m", 1), ("vectors", 2)):
        manifest = Models(tmp_path).version(name).manifest
        assert (manifest.sizes.workers, manifest.learned.examples) == (workers, 4600)
