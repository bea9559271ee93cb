"""How many tasks statements ask for."""

from __future__ import annotations

from typing import Any

import pytest

from xpsql.platform.training.parallelism import BYTES_PER_SHARD, Places, in_step, scoring_places
from xpsql.platform.training.plan import Settings


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
        ("asp", Places(2, 1), True),
        ("ssp", Places(3, 1), True),
        ("asp", Places(1, 1), False),
        ("asp", Places(2, 2), False),
        ("ssp", Places(2, 2), False),
    ],
)
def test_the_shards_of_one_worker_stand_at_one_step_whatever_sync_is(sync: str, places: Places, expected: bool) -> None:
    assert in_step(Settings(sync=sync), places) is expected
