"""Batches of a query: each exactly once, whatever ends the loop."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xpsql
import xpsql.ps

QUERY = "SELECT id AS item FROM range(0, 1000)"
TABLES = {"item": xpsql.ps.Table(2, "sgd (learning_rate = 1.0)", init=0), "beside": xpsql.ps.Table(3)}


def learn(
    ps: xpsql.ps.ParameterServer, most: int | None = None, at_end: Callable[[], object] = lambda: None, **more: Any
) -> int:
    """Add 1 to the row of each value of each batch; return how many batches came."""
    count = 0
    for batch in ps.batches(QUERY, batch_size=64, **more):
        ps["item"].push(batch["item"], np.full((len(batch), 2), -1))
        at_end()
        count += 1
        if count == most:
            break
    return count


def seen(ps: xpsql.ps.ParameterServer) -> list[float]:
    """Return how often each value was learned, without repeats."""
    return sorted(set(ps["item"].pull(np.arange(1000)).reshape(-1).tolist()))


def test_a_loop_that_ends_early_goes_on_with_the_batch_that_it_had(warehouse: Path) -> None:
    with xpsql.ps.local(warehouse, "s", tables=TABLES, shards=2) as ps:
        assert learn(ps, most=5) == 5
        assert learn(ps) == 12  # the fifth was not pushed
        assert seen(ps) == [1]
        assert learn(ps) == 0
        assert learn(ps, run="again", passes=2) == 32
        assert seen(ps) == [3]


def test_an_error_in_the_loop_pushes_nothing_of_its_batch(warehouse: Path) -> None:
    with xpsql.ps.local(warehouse, "s", tables=TABLES) as ps:
        with pytest.raises(ZeroDivisionError):
            learn(ps, most=0, at_end=lambda: 1 / 0)
        ps["item"].push([5000], np.ones((1, 2)))  # pushes go at once again
        assert ps.status()["tables"]["item"]["rows"] == 1
        learn(ps)
        assert seen(ps) == [1]


@pytest.mark.parametrize("shards", [2, 3])
def test_a_restart_goes_on_behind_its_checkpoint_and_counts_no_row_twice(warehouse: Path, shards: int) -> None:
    with xpsql.ps.local(warehouse, "s", tables=TABLES, shards=2) as ps:
        learn(ps, most=7)
        ps.checkpoint()
        learn(ps, most=4)  # lost with the process
    with xpsql.ps.local(warehouse, "s", shards=shards) as ps:
        assert learn(ps) == 10
        assert seen(ps) == [1]


def test_checkpoints_between_batches_keep_files_of_the_same_moment(warehouse: Path) -> None:
    file, counts = warehouse.parent / "count", [0]

    def files() -> dict[str, Path]:
        file.write_text(str(counts[0]))
        return {"count": file}

    with xpsql.ps.local(warehouse, "s", tables=TABLES) as ps:
        for batch in ps.batches(QUERY, batch_size=64, checkpoint_seconds=0, files=files):
            counts[0] += 1
            ps["item"].push(batch["item"], np.full((len(batch), 2), -1))
            if counts[0] == 6:
                break
    with xpsql.ps.local(warehouse, "s") as ps:
        assert ps.files["count"].read_text() == "5"
        assert learn(ps) == 11
        assert seen(ps) == [1]


def test_ranks_share_the_batches_and_each_goes_on_by_itself(warehouse: Path) -> None:
    with xpsql.ps.local(warehouse, "s", tables=TABLES) as ps:
        assert learn(ps, rank=1, world=3) == 5
        assert learn(ps, rank=0, world=3, most=2) == 2
        assert learn(ps, rank=0, world=3) == 5
        assert learn(ps, rank=2, world=3) == 5
        assert seen(ps) == [1]


def test_rows_come_in_the_order_of_the_query_which_is_run_once(warehouse: Path) -> None:
    with xpsql.ps.local(warehouse, "s", tables=TABLES) as ps:
        first = [batch["item"].to_pylist() for batch in ps.batches("SELECT random() AS item FROM range(200000)", 70_000)]
        again = [batch["item"].to_pylist() for batch in ps.batches("SELECT random() AS item FROM range(200000)", 70_000)]
        assert [len(one) for one in first] == [70_000, 70_000, 60_000]
        assert again == []


@pytest.mark.parametrize(
    ("given", "message"), [({"batch_size": 0}, "batch_size"), ({"rank": 2, "world": 2}, "rank from 0 to 1")]
)
def test_numbers_of_batches_that_cannot_be_are_refused(warehouse: Path, given: dict[str, int], message: str) -> None:
    with xpsql.ps.local(warehouse, "s", tables=TABLES) as ps, pytest.raises(xpsql.OptionError, match=message):
        next(iter(ps.batches(QUERY, **given)))  # type: ignore[arg-type]


def test_a_query_that_cannot_run_is_refused_and_leaves_no_input(warehouse: Path) -> None:
    with xpsql.ps.local(warehouse, "s", tables=TABLES) as ps:
        with pytest.raises(xpsql.StatementError):
            next(iter(ps.batches("SELECT nothing FROM nowhere")))
        assert learn(ps) == 16
