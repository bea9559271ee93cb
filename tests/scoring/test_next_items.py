"""The moment after users' events."""

from __future__ import annotations

from datetime import date, datetime

import pyarrow as pa
import pytest

from xpsql.platform.scoring.next_items import later


@pytest.mark.parametrize(
    ("kind", "time", "expected"),
    [
        (pa.int32(), 5, 6),
        (pa.int64(), 1 << 60, (1 << 60) + 1),
        (pa.date32(), date(2026, 2, 28), date(2026, 3, 1)),
        (pa.timestamp("ms"), datetime(2026, 2, 28, 23, 59, 59), datetime(2026, 3, 1)),
    ],
)
def test_a_question_is_asked_a_moment_later_and_without_a_time_where_the_event_has_none(
    kind: pa.DataType, time: object, expected: object
) -> None:
    found = later(pa.chunked_array([pa.array([time, None], kind)]))
    assert (found.type, found.to_pylist()) == (kind, [expected, None])
