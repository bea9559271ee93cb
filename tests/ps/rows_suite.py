"""What every implementation of Rows must do, as one class; a test file derives from it and says how rows are made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from tests.ps.test_native_snapshot import taken
from tests.ps.test_native_store import COLUMNS, COUNT, LAYOUT, SLOT, V, W, gathered, random_keys
from xpsql.platform.ps._native import Arguments, Store
from xpsql.platform.ps.rows.base import MISSING, NewRows, Rows

REFUSED: list[tuple[Callable[[Rows], Any], type[Exception]]] = [
    (lambda r: r.lookup(np.zeros(3, np.int64)), TypeError),  # type: ignore[arg-type]
    (lambda r: r.lookup(np.zeros((3, 1), np.uint64)), ValueError),
    (lambda r: r.insert(np.zeros(6, np.uint64)[::2]), ValueError),
    (lambda r: r.gather(np.zeros(1, np.uint32), [W], [np.zeros((1, 1), np.float32)]), IndexError),
    (lambda r: r.gather(np.zeros(0, np.uint32), [9], [np.zeros((1, 1), np.float32)]), IndexError),
    (lambda r: r.gather(np.full(2, MISSING), [V], [np.zeros((1, 3), np.float32)]), ValueError),
    (lambda r: r.gather(np.full(1, MISSING), [V], [np.zeros((1, 3), np.float64)]), TypeError),
    (lambda r: r.scatter(np.full(1, MISSING), [V, W], [np.zeros((1, 3), np.float32)]), ValueError),
    (lambda r: r.update(np.full(1, MISSING), [], [], [W], [1], [], []), TypeError),
    (lambda r: r.keys(5, 1025), ValueError),
    (lambda r: r.put(np.zeros((1, r.row_bytes + 8), np.uint8)), ValueError),
    (lambda r: r.take(np.zeros((1, r.row_bytes + 8), np.uint8)), ValueError),
    (lambda r: r.gather_into(np.full(3, MISSING), Arguments(LAYOUT, 2)), ValueError),
]


class RowsSuite:
    """Checks of one implementation.

    Attributes:
        new_rows: makes empty rows.
    """

    new_rows: NewRows

    def made(self, columns: list[tuple[str, str, int]] = COLUMNS) -> Rows:
        return type(self).new_rows(columns)

    def filled(self, keys: np.ndarray) -> Rows:
        """Return rows of keys, each column of each with a value of its own."""
        made, n = self.made(), len(keys)
        rows, created = made.insert(keys)
        assert created.all()
        slots, counts = np.arange(n, dtype=np.uint16), np.arange(n, dtype=np.uint32) + 7
        vectors = np.arange(3 * n, dtype=np.float32).reshape(n, 3)
        made.scatter(rows, [SLOT, W, COUNT, V], [slots, vectors[:, :1].copy(), counts, vectors])
        return made

    def test_missing_rows_read_as_zeros_and_are_not_written(self) -> None:
        made = self.filled(random_keys(5))
        rows = np.full(2, MISSING)
        made.scatter(rows, [V], [np.ones((2, 3), np.float32)])
        made.update(rows, [], [], [COUNT], [3], [], [])
        assert not any(values.any() for values in gathered(made, rows).values())
        assert made.lookup(random_keys(2, seed=9)).tolist() == rows.tolist()
        assert len(made) == 5

    def test_of_a_row_that_stands_twice_the_last_value_stays_and_amounts_add_up(self) -> None:
        made = self.filled(random_keys(1))
        rows = np.zeros(2, np.uint32)
        made.update(rows, [V], [np.arange(6, dtype=np.float32).reshape(2, 3)], [COUNT], [np.array([1, 2], np.uint32)], [], [])
        found = gathered(made, rows[:1])
        assert (found["v"].tolist(), found["count"].tolist()) == ([[3, 4, 5]], [[10]])

    def test_counters_stay_at_their_end_and_rise_to_what_they_are_at_least(self) -> None:
        made = self.filled(random_keys(3))
        rows = np.arange(3, dtype=np.uint32)
        made.update(rows, [], [], [], [], [COUNT], [np.array([0, 100, 8], np.uint32)])
        assert gathered(made, rows)["count"][:, 0].tolist() == [7, 100, 9]
        made.update(rows, [], [], [COUNT], [2**32 - 10], [], [])
        assert gathered(made, rows)["count"][:, 0].tolist() == [2**32 - 3, 2**32 - 1, 2**32 - 1]

    def test_a_row_that_is_used_again_starts_from_zeros(self) -> None:
        keys = random_keys(50)
        made = self.filled(keys)
        assert made.evict(keys) == 50
        rows, created = made.insert(random_keys(50, seed=2))
        assert created.all()
        assert made.end == 50
        assert not any(values.any() for values in gathered(made, rows).values())

    def test_a_key_that_stands_twice_is_created_once(self) -> None:
        rows, created = self.made().insert(np.array([5, 5], np.uint64))
        assert (rows[0] == rows[1], created.tolist()) == (True, [True, False])

    def test_only_the_first_rows_of_a_longer_array_are_written(self) -> None:
        made = self.filled(random_keys(2))
        out = np.full((4, 3), 9, np.float32)
        made.gather(np.arange(2, dtype=np.uint32), [V], [out])
        assert out.tolist() == [[0, 1, 2], [3, 4, 5], [9, 9, 9], [9, 9, 9]]

    def test_programs_get_their_columns_and_zeros_after_them(self) -> None:
        keys = random_keys(4)
        made = self.filled(keys)
        arguments = Arguments(LAYOUT, 7)
        assert made.pull(np.append(keys, np.uint64(1)), arguments).tolist() == [0, 1, 2, 3, int(MISSING)]
        assert arguments["count"].reshape(-1).tolist() == [7, 8, 9, 10, 0, 0, 0]
        assert np.array_equal(arguments["v"][:4], np.arange(12).reshape(4, 3))
        assert not arguments["v"][4:].any()

    def test_arrays_of_jax_are_taken(self) -> None:
        made = self.filled(random_keys(1))
        made.scatter(np.zeros(1, np.uint32), [V], [jnp.array([[1.5, 2.5, 3.5]], jnp.float32)])  # type: ignore[list-item]
        assert gathered(made, np.zeros(1, np.uint32))["v"].tolist() == [[1.5, 2.5, 3.5]]

    def test_records_have_the_layout_of_the_native_store(self) -> None:
        made, store = self.filled(random_keys(20)), Store(COLUMNS)
        assert (made.layout, made.row_bytes) == (store.layout, store.row_bytes)
        made.begin_snapshot(True)
        store.put(taken(made))
        keys, rows = made.keys()
        assert np.array_equal(store.keys()[0], keys)
        for name, values in gathered(store, store.lookup(keys)).items():
            assert np.array_equal(values, gathered(made, rows)[name])

    def test_a_snapshot_is_of_the_moment_when_it_began(self) -> None:
        keys = random_keys(10)
        made = self.filled(keys)
        made.begin_snapshot(True)
        made.scatter(made.lookup(keys[:3]), [V], [np.full((3, 3), 99, np.float32)])
        assert made.kept_bytes == 3 * made.row_bytes
        made.evict(keys[3:5])
        made.insert(random_keys(4, seed=2))
        restored = self.made()
        restored.put(taken(made))
        assert np.array_equal(gathered(restored, restored.lookup(keys))["v"], np.arange(30).reshape(10, 3))
        assert (len(restored), made.kept_bytes) == (10, 0)

    def test_an_incremental_snapshot_has_what_changed(self) -> None:
        keys = random_keys(1000)
        made = self.filled(keys)
        assert made.begin_snapshot(False)[1]
        assert len(taken(made)) == 1000
        made.scatter(made.lookup(keys[:100]), [W], [np.full((100, 1), 2, np.float32)])
        made.insert(random_keys(50, seed=2))
        made.evict(keys[90:95])
        made.insert(keys[90:91])
        gone, full = made.begin_snapshot(False)
        assert (set(gone.tolist()), full) == (set(keys[90:95].tolist()), False)
        assert len(taken(made)) == 146

    def test_after_a_snapshot_that_was_given_up_the_next_one_is_full(self) -> None:
        made = self.filled(random_keys(10))
        made.begin_snapshot(False)
        with pytest.raises(RuntimeError, match="a snapshot is being taken"):
            made.begin_snapshot(False)
        made.cancel_snapshot()
        assert made.begin_snapshot(False)[1]
        assert len(taken(made)) == 10

    @pytest.mark.parametrize("number", range(len(REFUSED)))
    def test_what_does_not_fit_is_refused(self, number: int) -> None:
        call, error = REFUSED[number]
        with pytest.raises(error):
            call(self.made())

    @pytest.mark.parametrize("column", [("w", "float64", 1), ("w", "float32", 0)])
    def test_columns_that_cannot_be_held_are_refused(self, column: tuple[str, str, int]) -> None:
        with pytest.raises(ValueError, match="column w must"):
            self.made([column])
