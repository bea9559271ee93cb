"""Searches of long histories: native and in JAX they choose what their definitions say, in plain Python."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from tests.cases import lengthy
from xpsql.algorithms.blocks.base import BatchWindow
from xpsql.algorithms.blocks.histories import History
from xpsql.algorithms.blocks.searched import SearchedHistory, SearchedSpans, marked, merged
from xpsql.algorithms.chunk import Chunk
from xpsql.algorithms.layers.history_search import HistorySearch, mark

ROWS, DIM, EVENTS, BATCH, FIELDS = 12, 3, 200, 40, 2
ABSENT = ROWS - 1


def search(how: str, top: int, recent: int) -> HistorySearch:
    return HistorySearch(how, top, recent, by=1, lines=(0, 1), group=0, fields=(0, 1))


class Case:
    """A batch of spans that overlap, some empty or short, whose elements lack values, and have equal scores."""

    def __init__(self, seed: int) -> None:
        draw = np.random.default_rng(seed)
        every = np.stack(np.meshgrid(*[np.arange(-2, 3)] * DIM), axis=-1).reshape(-1, DIM).astype(np.float32)
        self.vectors = draw.permutation(every[every.any(axis=1)])[:ROWS]
        self.vectors[ABSENT] = 0
        self.elements = draw.choice([*range(ROWS - 1), ABSENT, ABSENT], (FIELDS, EVENTS)).astype(np.int32)
        self.begin = draw.integers(0, EVENTS, BATCH)
        self.end = np.minimum(self.begin + draw.choice([0, 1, 5, 30, 120], BATCH), EVENTS)
        self.target = draw.choice([*range(ROWS - 1), ABSENT], (FIELDS, BATCH)).astype(np.int32)

    def expected(self, asked: HistorySearch) -> list[list[int]]:
        found = []
        for row, (begin, end) in enumerate(zip(self.begin, self.end, strict=True)):
            there = [place for place in range(begin, end) if (self.elements[:, place] != ABSENT).any()]
            cut = max(len(there) - asked.recent, 0)
            older, last = there[:cut], there[cut:]

            def product(place: int, row: int = row) -> float:
                pairs = zip(self.target[:, row], self.elements[:, place], strict=True)
                return float(sum(self.vectors[a] @ self.vectors[b] for a, b in pairs))

            if asked.how == "category":
                wanted = self.target[1, row]
                older = [place for place in older if wanted != ABSENT and self.elements[1, place] == wanted][-asked.top :]
            else:
                older = sorted(sorted(older, key=lambda place: (product(place), place))[-asked.top :])
            found.append([*older, *last])
        return found

    def chosen(self, asked: HistorySearch) -> History:
        if asked.how == "category":
            return self.agreeing(asked)
        spans = SearchedHistory(tuple(self.elements), (np.arange(ROWS, dtype=np.int32),) * FIELDS, self.begin, self.end, ABSENT)
        found = asked.chosen({"vectors": self.vectors}, lambda line: self.target[line], {"histories": (spans,)})
        (history,) = found["histories"]
        return history  # type: ignore[no-any-return]

    def agreeing(self, asked: HistorySearch) -> History:
        codes = np.append(np.arange(100, 100 + ROWS - 1), -1).astype(np.int32)
        spans = SearchedSpans(tuple(self.elements), (codes, codes), self.begin, self.end, EVENTS)
        empty: Any = np.empty((0, BATCH))
        own = dict.fromkeys(("keys", "slots", "dense", "dense_codes", "offered_codes", "label", "weight", "time"), empty)
        chunk = asked.of_chunk(Chunk(scalar=codes[self.target], bags=(), blocks={"histories": (spans,)}, **own))
        (record,) = chunk.blocks["histories"]
        found, _ = record.features(0, BATCH)
        rows = np.where(found < 0, ABSENT, found - 100).astype(np.int32)
        return record.cut(BatchWindow(0, BATCH, BATCH, ABSENT, lambda longest, most: most, np.empty), rows)  # type: ignore[no-any-return]

    def as_arrays(self) -> History:
        most = int((self.end - self.begin).max())
        rows = np.full((FIELDS, BATCH, most), ABSENT, np.int32)
        for row, (begin, end) in enumerate(zip(self.begin, self.end, strict=True)):
            rows[:, row, : end - begin] = self.elements[:, begin:end]
        return History(jnp.asarray(rows), jnp.asarray((rows != ABSENT).any(axis=0)))


def elements_of(history: History) -> list[list[tuple[int, ...]]]:
    rows, mask = np.asarray(history.rows), np.asarray(history.mask)
    return [[tuple(map(int, rows[:, row, place])) for place in np.flatnonzero(mask[row])] for row in range(BATCH)]


@lengthy
@pytest.mark.parametrize("how", ["product", "category"])
@pytest.mark.parametrize(("top", "recent"), [(4, 3), (1, 0), (8, 20)])
@pytest.mark.parametrize("seed", range(4))
def test_a_search_chooses_by_its_definition_natively_and_in_jax(how: str, top: int, recent: int, seed: int) -> None:
    case, asked = Case(seed), search(how, top, recent)
    expected = [[tuple(map(int, case.elements[:, place])) for place in row] for row in case.expected(asked)]
    assert elements_of(case.chosen(asked)) == expected
    vectors, target = jnp.asarray(case.vectors), jnp.asarray(case.target)
    targets = jnp.concatenate([vectors[rows] for rows in target], axis=1)
    assert elements_of(asked.in_jax({"vectors": vectors}, vectors, targets, target, case.as_arrays())) == expected


def test_a_search_of_as_many_as_there_are_sees_all_in_order() -> None:
    case = Case(9)
    everything = [
        [tuple(map(int, case.elements[:, p])) for p in range(b, e) if (case.elements[:, p] != ABSENT).any()]
        for b, e in zip(case.begin, case.end, strict=True)
    ]
    assert elements_of(case.chosen(search("product", EVENTS, 0))) == everything


def test_a_batch_has_each_feature_of_overlapping_spans_once() -> None:
    case = Case(2)
    codes = np.append(np.arange(100, 100 + ROWS - 1), -1).astype(np.int32)
    spans = SearchedSpans(tuple(case.elements), (codes, codes), case.begin, case.end, EVENTS)
    found, owners = spans.features(5, 30)
    used: Any = [set(), set()]
    for field in range(FIELDS):
        for begin, end in zip(case.begin[5:30], case.end[5:30], strict=True):
            used[field] |= set(case.elements[field, begin:end].tolist()) - {ABSENT}
    assert sorted(found.tolist()) == sorted(100 + code for field in used for code in field)
    assert all(0 <= owner < 25 for owner in owners)
    window = BatchWindow(5, 30, 32, 50, lambda longest, most: most, np.empty)
    cut = spans.cut(window, np.arange(len(found), dtype=np.int32))
    assert [len(set(table.tolist()) - {50}) for table in cut.tables] == [len(field) for field in used]
    assert (cut.begin[25:] == cut.end[25:]).all()


def test_natively_each_code_is_of_the_same_span_as_in_numpy() -> None:
    case = Case(5)
    begin, end, _ = merged(case.begin[:6], case.end[:6])
    assert np.array_equal(mark(case.elements[0], begin, end, ROWS), marked(case.elements[0], begin, end, ROWS))


def test_merged_spans_have_the_same_elements_and_do_not_overlap() -> None:
    case = Case(3)
    begin, end, first = merged(case.begin, case.end)
    assert (begin[1:] > end[:-1]).all()
    every = {place for b, e in zip(case.begin, case.end, strict=True) for place in range(b, e)}
    assert {place for b, e in zip(begin, end, strict=True) for place in range(b, e)} == every
    assert all(begin[n] <= case.begin[owner] < end[n] for n, owner in enumerate(first))
