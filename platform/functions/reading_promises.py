"""What readings promise, as checks, as promises.py has them of folds and updates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .base import KeyedReading, ReadingPart, RowTable
from .promises import ROW_TABLE, ROWS, SEED

Floats = NDArray[np.float32]


class ReadingTrial:
    """A reading of made rows.

    Args:
        part: the reading's part.
        options: its options; None: its defaults.
        table: whose rows.
    """

    def __init__(self, part: ReadingPart, options: Any = None, table: RowTable = ROW_TABLE) -> None:
        self.reading: KeyedReading = part.make(part.options() if options is None else options, table)
        draw = np.random.default_rng(SEED)
        self.weights = draw.normal(size=(ROWS, table.dim)).astype(np.float32)
        self.arrays = {name: draw.normal(size=shape).astype(np.float32) for name, shape in self.reading.arrays.items()}

    def read(self, weights: Floats) -> Floats:
        """Return what it says of some rows."""
        return self.reading.read(weights, self.arrays)


def assert_numbers(found: Floats, expected: Floats, what: str) -> None:
    np.testing.assert_array_equal(found, expected, err_msg=what)


def numbers_have_their_width_and_type(trial: ReadingTrial) -> None:
    """It returns float32[n, width], of no rows, too."""
    for size in (0, 1, ROWS):
        found, expected = trial.read(trial.weights[:size]), (size, trial.reading.width)
        if not isinstance(found, np.ndarray) or found.dtype != np.float32 or found.shape != expected:
            raise AssertionError(f"expected float32{list(expected)}, got {getattr(found, 'dtype', type(found))}: {found!r}")


def a_number_depends_on_its_row_alone(trial: ReadingTrial) -> None:
    """Rows in another order, in two pieces, and one alone give the same bits."""
    whole = trial.read(trial.weights)
    order = np.random.default_rng(SEED).permutation(ROWS)
    for some in (order, np.arange(ROWS // 3), np.arange(ROWS // 3, ROWS), np.arange(1)):
        assert_numbers(trial.read(trial.weights[some]), whole[some], "the numbers of a row depend on other rows")


def nan_stays_in_its_row(trial: ReadingTrial) -> None:
    """NaN in one row changes no number of the others."""
    whole, broken = trial.read(trial.weights), trial.weights.copy()
    broken[0] = np.nan
    assert_numbers(trial.read(broken)[1:], whole[1:], "NaN in one row reached another")


def rows_and_arrays_stay_as_they_are(trial: ReadingTrial) -> None:
    """It changes neither rows nor arrays, and says the same of the same."""
    weights, arrays = trial.weights.copy(), {name: values.copy() for name, values in trial.arrays.items()}
    first = trial.read(trial.weights)
    assert_numbers(trial.read(trial.weights), first, "the same rows gave other numbers")
    assert_numbers(trial.weights, weights, "the rows were changed")
    for name, values in arrays.items():
        assert_numbers(trial.arrays[name], values, f"the array {name} was changed")


READING_CHECKS: tuple[Callable[[ReadingTrial], None], ...] = (
    numbers_have_their_width_and_type,
    a_number_depends_on_its_row_alone,
    nan_stays_in_its_row,
    rows_and_arrays_stay_as_they_are,
)
