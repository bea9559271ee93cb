"""Runs of neighbouring rows that agree in some slots are found where they save enough, and nowhere else."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tests.input.test_groups import bag, chunk_of
from xpsql.algorithms.chunk import Chunk
from xpsql.platform.input.runs.finding import RunFinder, RunsOfSplit
from xpsql.platform.ps._native import mark_bag_changes, mark_changes

ROWS = 4096


def chunk(lines: Sequence[int]) -> Chunk:
    """Return a chunk whose lines change after so many rows."""
    like, random = chunk_of([ROWS], 3), np.random.default_rng(5)
    scalar = [np.repeat(random.permutation(ROWS // length + 1), length)[:ROWS] for length in lines]
    return like._replace(scalar=np.array(scalar, np.int32), bags=(), blocks={})


def test_slots_that_change_together_make_runs() -> None:
    runs = RunFinder().found(chunk([40, 1, 40, 40, 1])).runs
    assert runs is not None
    assert runs.lines == (True, False, True, True, False)
    np.testing.assert_array_equal(runs.starts, np.arange(0, ROWS, 40))


def test_a_run_ends_where_any_of_its_slots_changes() -> None:
    runs = RunFinder().found(chunk([64, 48, 1])).runs
    assert runs is not None
    assert runs.starts.tolist() == [row for row in range(ROWS) if row % 64 == 0 or row % 48 == 0]


@pytest.mark.parametrize("lines", [[1, 1, 1], [2, 2, 2], [1, 1, 1, 1, 100]], ids=["shuffled", "pairs", "one slot of five"])
def test_a_log_that_would_save_little_has_no_runs(lines: list[int]) -> None:
    assert RunFinder().found(chunk(lines)).runs is None


def test_a_few_rows_have_no_runs() -> None:
    assert RunFinder().found(chunk_of([3] * 20, 1)).runs is None


def test_arrays_count_by_their_length() -> None:
    runs = RunFinder().found(chunk_of([512] * 8, 1)).runs
    assert runs is not None
    assert (runs.lines, runs.bags, runs.histories) == ((True, False, True), (0,), (0,))
    assert runs.starts.tolist() == list(range(0, ROWS, 512))


def test_slots_are_kept_for_chunks_where_others_are_hardly_better() -> None:
    finder = RunFinder()
    first = finder.found(chunk([40, 40, 40, 40, 1, 40])).runs
    later = finder.found(chunk([40, 40, 40, 40, 40, 40])).runs
    assert first is not None
    assert later is not None
    assert later.lines == (True,) * 6
    back = finder.found(chunk([40, 40, 40, 40, 1, 40])).runs
    assert back is not None
    assert back.lines == first.lines


def test_changes_of_a_line_are_marked_beside_those_that_were() -> None:
    changed = np.array([1, 0, 0, 1, 0], np.uint8)
    mark_changes(np.array([4, 4, 5, 5, 5], np.int32), changed)
    assert changed.tolist() == [1, 0, 1, 1, 0]


def test_bags_change_with_length_values_order_and_weights() -> None:
    rows = [[1, 2], [1, 2], [2, 1], [2], [], [], [3], [3]]
    codes = np.array([code for row in rows for code in row], np.int32)
    weights = np.ones(len(codes), np.float32)
    weights[-1] = 2
    changed = np.zeros(len(rows), np.uint8)
    mark_bag_changes(codes, weights, np.concatenate([[0], np.cumsum([len(row) for row in rows])]), changed)
    assert changed.tolist() == [0, 0, 1, 1, 1, 0, 1, 1]


def test_offsets_outside_of_a_bag_are_refused() -> None:
    own = bag(np.random.default_rng(1), 4)
    with pytest.raises(ValueError, match="offsets must ascend and stay within codes"):
        mark_bag_changes(own.codes, own.weights, own.offsets + 1, np.zeros(4, np.uint8))


def test_the_first_chunk_of_a_split_chooses_for_all_of_it() -> None:
    first, other = chunk([40, 40, 40, 40, 1, 40]), chunk([40, 1, 40, 40, 40, 40])
    split = RunsOfSplit()
    chosen = [split.found(one, number).runs for number, one in enumerate((first, other, first))]
    assert chosen[0] is not None
    assert chosen[0].lines == (True, True, True, True, False, True)
    assert chosen[1] is None  # of what was chosen one changes in each row
    assert chosen[2] is not None
    assert chosen[2].lines == chosen[0].lines
    split = RunsOfSplit()
    assert split.found(chunk([1, 1]), 0).runs is None
    assert split.found(first, 1).runs is None


def test_chunks_of_a_split_wait_for_the_first_one_with_rows_on_whichever_thread() -> None:
    first, other = chunk([40, 40, 40, 40, 1, 40]), chunk([40, 1, 40, 40, 40, 40])
    split, begun = RunsOfSplit(), threading.Event()

    def second() -> Chunk:
        begun.set()
        return split.found(other, 2)

    with ThreadPoolExecutor(1) as pool:
        later = pool.submit(second)
        begun.wait()
        split.over(0)  # it had no rows
        assert split.found(first, 1).runs is not None
        assert later.result().runs is None  # it has not chosen itself
