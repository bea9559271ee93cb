"""Defaults that hang on the data."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from xpsql.algorithms.base import Sizing
from xpsql.platform.errors import OptionError, Subject
from xpsql.platform.options import Value, parse
from xpsql.platform.training.clauses.settings import Settings
from xpsql.platform.training.parallelism import batch_size, passes_of


@pytest.mark.parametrize(
    ("given", "rows", "workers", "large", "expected"),
    [
        (None, 10, 1, True, 64),
        (None, 50_000, 1, False, 256),
        (None, 200_000, 1, True, 1024),
        (None, 500_000, 2, True, 2048),
        (None, 4_000_000, 4, True, 16384),
        (None, 4_000_000, 8, True, 8192),
        (None, 4_000_000, 1, False, 1024),
        (64, 4_000_000, 100, True, 64),
        (None, 1000, 4096, True, 64),
    ],
)
def test_the_batch_size_grows_with_the_log_and_shrinks_with_many_workers_where_the_algorithm_allows(
    given: int | None, rows: int, workers: int, large: bool, expected: int
) -> None:
    assert batch_size(Settings(batch_size=given), rows, workers, large, 1) == expected


@pytest.mark.parametrize(
    ("given", "plan", "rows", "expected"),
    [
        (None, {}, 12, 10),
        (None, {}, 120_000, 9),
        (None, {}, 999_999, 2),
        (None, {}, 1_000_000, 1),
        (None, {}, 0, 10),
        (3, {}, 120_000, 3),
        (3, {"parent": 1}, 120_000, 3),
        (None, {"parent": 1}, 120_000, 1),
        (None, {"stream": "s"}, 120_000, 1),
    ],
)
def test_a_short_log_is_read_several_times_where_the_algorithm_wants_more_examples(
    given: int | None, plan: dict[str, Any], rows: int, expected: int
) -> None:
    said: Any = SimpleNamespace(**{"settings": Settings(passes=given), "parent": None, "stream": None, **plan})
    wanting, content = (SimpleNamespace(sizing=Sizing(least_examples=least)) for least in (1_000_000, 0))
    assert passes_of(said, wanting, rows) == expected  # type: ignore[arg-type]
    assert passes_of(said, content, rows) == (given or 1)  # type: ignore[arg-type]


def test_a_time_between_checkpoints_that_no_thread_can_wait_is_refused() -> None:
    with pytest.raises(OptionError, match="checkpoint_seconds"):
        parse(Settings, {"checkpoint_seconds": Value(threading.TIMEOUT_MAX * 2)}, Subject("WITH"))
