"""What a worker asks of shards, and in which order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pytest

from tests.simulation import model
from xpsql.platform.input.batches import Batch
from xpsql.platform.input.source import End
from xpsql.platform.input.timing import Clocks
from xpsql.platform.ps.client import Handle, LocalClient
from xpsql.platform.ps.messages import BatchId, Keys, Pulled, Push
from xpsql.platform.ps.watermarks import Turn
from xpsql.platform.training.row_files.rows import STEADY

Item = Batch | End


class Noting(LocalClient):
    """Notes what is asked of it: pulls as of the next batch, pushes with their number."""

    def __init__(self) -> None:
        super().__init__([model.new_shard(None, 0, 1, None, 0, STEADY)])
        self.asked: list[str] = []

    def start_pull(self, keys: Keys, size: int, dense: bool = True) -> Handle[Pulled]:
        self.asked.append(f"pull {sum(one.startswith('pull') for one in self.asked)}")
        return super().start_pull(keys, size, dense)

    def start_pull_dense(self) -> Handle[Pulled]:
        self.asked.append("pull dense")
        return super().start_pull_dense()

    def start_push(self, push: Push) -> Handle[object]:
        self.asked.append(f"push {push.touched.batch.batch}")
        return super().start_push(push)


class Given:
    """Items of which only some are there when they are asked for; see Coming."""

    def __init__(self, items: Sequence[Item], there: Callable[[int], bool]) -> None:
        self._items, self._there, self._taken = items, there, 0

    @property
    def ready(self) -> bool:
        return self._taken == len(self._items) or self._there(self._taken)

    def __iter__(self) -> Iterator[Item]:
        return self

    def __next__(self) -> Item:
        if self._taken == len(self._items):
            raise StopIteration
        self._taken += 1
        return self._items[self._taken - 1]


def asked(depth: int, there: Callable[[int], bool], hybrid: bool = False) -> str:
    """Return what a worker asks that learns from two turns of two batches and of one."""
    log, client = model.made_log(3, 1, 1), Noting()
    (batch,) = log.splits[0]
    turns = Turn(0, 0), Turn(0, 1)
    first, second, third = (
        batch._replace(id=BatchId(0, *turn, n)) for turn, n in ((turns[0], 0), (turns[0], 1), (turns[1], 0))
    )

    def ended(end: End) -> None:
        client.asked.append("end")

    worker = model.LogWorker(0, client, None, lambda batch, predictions: None, ended, Clocks().learning, hybrid)
    items = Given([first, second, End(turns[0], 2), third, End(turns[1], 1)], there)
    if depth:
        worker.learn_ahead(items, lambda: True, depth, lambda item: True)
    else:
        worker.learn(items, lambda: True, False)
    return ", ".join(client.asked)


@pytest.mark.parametrize(
    ("depth", "there", "wanted"),
    [
        (0, True, "pull 0, push 0, pull 1, push 1, end, pull 2, push 0, end"),
        (1, True, "pull 0, pull 1, push 0, push 1, pull 2, end, push 0, end"),
        (3, True, "pull 0, pull 1, pull 2, push 0, push 1, end, push 0, end"),
        (1, False, "pull 0, push 0, pull 1, push 1, end, pull 2, push 0, end"),
    ],
)
def test_pulls_go_ahead_of_pushes_as_far_as_allowed_and_wait_for_no_batch(depth: int, there: bool, wanted: str) -> None:
    assert asked(depth, lambda number: there) == wanted


def test_with_hybrid_dense_parameters_are_pulled_behind_each_push() -> None:
    wanted = "pull dense, pull 1, pull 2, push 0, pull dense, push 1, pull dense, pull 5, end, push 0, pull dense, end"
    assert asked(1, lambda number: True, hybrid=True) == wanted
