"""What new rows start with is drawn once for a pull and the push of the same keys."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import numpy as np

from xpsql.platform.ps.compiled.row_programs import RowPrograms
from xpsql.platform.ps.compiled.starts import Starts

KEYS = np.arange(5, dtype=np.uint64) << np.uint64(33)


def started() -> tuple[Starts, list[list[int]]]:
    """Return starts that give a row the high half of its key, and the keys for which they were asked."""
    asked: list[list[int]] = []

    def initial(halves: np.ndarray) -> np.ndarray:
        asked.append([int(high) for high in halves[:, 1] if high])
        return halves[:, 1:].astype(np.float32)

    return Starts(cast(RowPrograms, SimpleNamespace(initial={"vectors.w": initial}))), asked


def put(starts: Starts, keys: np.ndarray, new: list[int]) -> list[float]:
    columns = {"vectors.w": np.full((len(keys), 1), -1, np.float32), "weights.z": np.zeros((len(keys), 1), np.float32)}
    starts.put(columns, keys, np.isin(np.arange(len(keys)), new))
    assert not columns["weights.z"].any()
    return [float(value) for value in columns["vectors.w"].ravel()]


def test_a_push_starts_the_rows_that_its_pull_found_absent_with_the_same_draw() -> None:
    starts, asked = started()
    for _ in range(2):
        assert put(starts, KEYS, [1, 3]) == [-1, 2, -1, 6, -1]
    assert asked == [[2, 6]]


def test_rows_that_differ_from_those_of_the_pull_are_drawn_for_themselves() -> None:
    starts, asked = started()
    put(starts, KEYS, [1, 3])
    assert put(starts, KEYS, [3]) == [-1, -1, -1, 6, -1]
    assert put(starts, KEYS.copy(), [3]) == [-1, -1, -1, 6, -1]
    assert put(starts, KEYS, []) == [-1] * 5
    assert asked == [[2, 6], [6], [6]]
