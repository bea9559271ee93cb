"""Defaults that hang on the data."""

from __future__ import annotations

import pytest

from xpsql.platform.flow.plan import Settings, batch_size


@pytest.mark.parametrize(
    ("given", "rows", "large", "expected"),
    [
        (None, 10, True, 64),
        (None, 50_000, False, 256),
        (None, 200_000, True, 1024),
        (None, 500_000, True, 2048),
        (None, 4_000_000, True, 4096),
        (None, 4_000_000, False, 1024),
        (64, 4_000_000, True, 64),
    ],
)
def test_the_batch_size_grows_with_the_log_where_the_algorithm_allows(
    given: int | None, rows: int, large: bool, expected: int
) -> None:
    assert batch_size(Settings(batch_size=given), rows, large, 1) == expected
