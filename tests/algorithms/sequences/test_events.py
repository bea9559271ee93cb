"""How users' events are cut into windows."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from xpsql.algorithms.blocks.event_windows import packed, strips_of

from .events import ABSENT_ROW, cut, event_rows


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9)), min_size=1, max_size=60),
    st.integers(1, 20),
    st.tuples(st.integers(0, 59), st.integers(1, 60)),
)
def test_each_example_finds_itself_and_its_users_last_event_before_its_moment(events, length, part):
    users, times = np.array(events).T
    start, stop = min(part[0], len(users) - 1), 0
    stop = min(len(users), start + part[1])
    batch = cut(event_rows(users, times, length), start, stop, size=stop - start + 3)
    cells, order = np.asarray(batch.rows).reshape(-1), np.lexsort((times, users))
    place = {int(row): n for n, row in enumerate(order)}
    for number, row in enumerate(range(start, stop)):
        assert cells[batch.own[number]] == row
        mine = [int(one) for one in order if users[one] == users[row]]
        earlier = [one for one in mine if times[one] < times[row]]
        window = np.asarray(batch.window).reshape(-1)
        seen = set(cells[window == window[batch.own[number]]])
        expected = max(earlier, key=place.__getitem__) if earlier else None
        if expected is not None and expected in seen:
            assert cells[batch.before[number]] == expected
        else:
            assert batch.before[number] == -1
            assert expected is None or len(mine) > length


def test_windows_overlap_by_half_and_predict_their_second_half():
    rows = event_rows([1] * 20, range(20), length=8)
    batch = cut(rows)
    window = np.asarray(batch.window).reshape(-1)
    cells = np.asarray(batch.rows).reshape(-1)
    own = [sorted(cells[window == number].tolist()) for number in range(4)]
    assert own == [list(range(8)), list(range(4, 12)), list(range(8, 16)), list(range(12, 20))]
    assert [int(window[cell]) for cell in batch.own] == [0] * 8 + [1] * 4 + [2] * 4 + [3] * 4


def test_the_windows_of_an_event_do_not_depend_on_how_rows_are_cut_into_batches():
    rows = event_rows([1] * 50 + [2] * 9, [*range(50), *range(9)], length=16)
    whole = cut(rows)
    cells, window = np.asarray(whole.rows).reshape(-1), np.asarray(whole.window).reshape(-1)
    for start in range(0, 59, 7):
        part = cut(rows, start, min(start + 7, 59))
        own, theirs = np.asarray(part.rows).reshape(-1), np.asarray(part.window).reshape(-1)
        for number, row in enumerate(range(start, min(start + 7, 59))):
            context = [one for one in own[theirs == theirs[part.own[number]]] if one <= row]
            assert context == [one for one in cells[window == window[whole.own[row]]] if one <= row]


def test_the_candidates_of_a_moment_each_have_the_past_that_one_alone_has():
    past = [*range(20)]
    rows = event_rows([1] * 40, [*past, *[99] * 20], length=8)
    batch = cut(rows)
    cells, window = np.asarray(batch.rows).reshape(-1), np.asarray(batch.window).reshape(-1)
    alone = cut(event_rows([1] * 21, [*past, 99], length=8))
    theirs, of = np.asarray(alone.rows).reshape(-1), np.asarray(alone.window).reshape(-1)
    expected = sorted(one for one in theirs[of == of[alone.own[20]]] if one < 20)
    for row in range(20, 40):
        assert sorted(one for one in cells[window == window[batch.own[row]]] if one < 20) == expected
        assert cells[batch.before[row]] == 19
        assert cells[batch.own[row]] == row


def test_padding_is_of_no_window_and_looks_up_the_row_of_zeros():
    batch = cut(event_rows([1, 1, 2], [5, 5, 7], 16), size=8)
    there = np.asarray(batch.mask)
    assert there.sum() == 3
    assert (np.asarray(batch.rows)[0][~there] == ABSENT_ROW).all()
    assert (np.asarray(batch.window)[~there] == -1).all()
    assert np.asarray(batch.before).tolist() == [-1] * 8


def test_the_time_until_the_next_event_is_of_the_next_moment():
    batch = cut(event_rows([1, 1, 1, 1], [100, 100, 160, 400], 16))
    assert np.asarray(batch.until)[0, :4].tolist() == [60, 60, 300, 300]
    assert np.asarray(batch.seconds)[0, :4].tolist() == [0, 0, 60, 300]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 16), min_size=1, max_size=60))
def test_windows_are_packed_without_overlap(sizes):
    strip, column, strips = packed(np.array(sizes), 16)
    taken = {(int(a), int(b) + n) for a, b, size in zip(strip, column, sizes, strict=True) for n in range(size)}
    assert len(taken) == sum(sizes)
    assert all(0 <= a < strips and 0 <= cell < 16 for a, cell in taken)
    assert strips <= 2 * -(-sum(sizes) // 16) + 1


def test_the_number_of_strips_is_padded_to_few_sizes():
    assert [strips_of(n) for n in (1, 2, 3, 4, 5, 7, 9, 13, 17)] == [1, 2, 3, 4, 6, 8, 12, 16, 24]
