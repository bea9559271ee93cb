"""Rows of items that were not taken: what they are made of, and which are drawn."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from xpsql.algorithms.augment import Draw
from xpsql.algorithms.augments.negatives import Negatives, drawn, with_negatives
from xpsql.algorithms.chunk import Chunk, Facets
from xpsql.algorithms.items.xsvd import XsvdOptions
from xpsql.platform.input.columns import Columns
from xpsql.platform.input.encode import encode
from xpsql.platform.input.slots import columns_of
from xpsql.platform.training.clauses.settings import Settings
from xpsql.platform.training.plan import Plan, Use

ROWS, ITEMS, NUMBER = 300, 12, 4
DRAW = Draw(7, 0, 0)
ITEM = ("item", "brand", "price", "topics", "picture")


def table() -> pa.Table:
    """Return users and items, of which everything else follows from the number."""
    random = np.random.default_rng(0)
    user, item = random.integers(0, 40, ROWS), random.zipf(1.5, ROWS) % ITEMS
    history = [random.integers(0, ITEMS, n).tolist() for n in random.integers(0, 4, ROWS)]
    return pa.table(
        {
            "label": np.ones(ROWS, np.int32),
            "user": user,
            "item": item,
            "brand": [f"b{i % 3}" for i in item],
            "price": item * 1.5,
            "age": user * 1.0,
            "topics": pa.array([[f"t{i % 4}", f"t{i % 5}"] for i in item]),
            "history": pa.array(history, pa.list_(pa.int64())),
            "picture": pa.array([[float(i), float(-i)] for i in item], pa.list_(pa.float32())),
        }
    )


def columns() -> Columns:
    settings = Settings(share=(("history", "item"),))
    found = columns_of(table().schema, Plan("", "m", Use("xsvd", {}, XsvdOptions()), (), "", settings=settings).roles, None)
    return dataclasses.replace(
        found, slots=tuple(dataclasses.replace(s, dim=2) if s.name == "picture" else s for s in found.slots)
    )


def added(power: float = 0.5, number: int = NUMBER, pass_number: int = 0) -> tuple[Chunk, Chunk]:
    """Return a chunk before and after."""
    chunk, negatives = encode(table(), columns(), with_labels=True), Negatives(number, power, ITEM, ("history",))
    layout = columns().layout
    return chunk, with_negatives(chunk, negatives, layout, drawn(chunk, negatives, layout, Draw(7, pass_number, 0)), 0)


def bag(chunk: Chunk, number: int, row: int) -> list[int]:
    offsets = chunk.bags[number].offsets
    return list(chunk.bags[number].codes[offsets[row] : offsets[row + 1]])


def test_a_row_is_followed_by_rows_of_the_same_user_and_whole_other_items() -> None:
    before, after = added()
    by_item: dict[Any, Any] = {}

    def sides(chunk: Chunk, row: int) -> tuple[Any, Any]:
        user, item, brand = chunk.scalar[:, row]
        price, age, *picture = chunk.dense[:, row]
        return (user, age, bag(chunk, 1, row)), (item, brand, price, *picture, *bag(chunk, 0, row))

    for row in range(ROWS):
        user, item = sides(before, row)
        by_item[item[0]] = item
        assert sides(after, row * (1 + NUMBER)) == (user, item)
        for other in range(1, 1 + NUMBER):
            assert sides(after, row * (1 + NUMBER) + other)[0] == user
    assert all(sides(after, row)[1] == by_item[after.scalar[1, row]] for row in range(len(after.weight)))
    np.testing.assert_array_equal(after.label[0].reshape(ROWS, -1), [[1] + [0] * NUMBER] * ROWS)


def test_items_that_the_user_has_or_took_count_nothing() -> None:
    _, after = added()
    for row in range(len(after.weight)):
        own = row - row % (1 + NUMBER)
        known = after.scalar[1, row] in [after.scalar[1, own], *bag(after, 1, row)]
        assert after.weight[row] == (0 if known and row != own else 1)
    assert 0 < (after.weight == 0).mean() < 0.7


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0])
def test_items_are_drawn_by_a_power_of_their_count(power: float) -> None:
    before, after = added(power, number=200)
    counts = np.bincount(before.scalar[1], minlength=len(before.keys)).astype(float)
    drawn = np.bincount(after.scalar[1].reshape(ROWS, -1)[:, 1:].reshape(-1), minlength=len(before.keys))
    expected = np.where(counts > 0, counts**power, 0)
    np.testing.assert_allclose(drawn / drawn.sum(), expected / expected.sum(), atol=0.01)


def test_draws_repeat_with_what_the_chunk_holds_and_differ_from_pass_to_pass() -> None:
    (_, one), (_, again), (_, other) = added(), added(), added(pass_number=1)
    np.testing.assert_array_equal(one.scalar, again.scalar)
    assert (one.scalar != other.scalar).any()


def test_without_items_nothing_counts_but_the_rows_themselves() -> None:
    chunk = encode(table(), columns(), with_labels=True)
    chunk.scalar[1] = -1
    negatives = Negatives(NUMBER, 0.5, ITEM, ("history",))
    layout = columns().layout
    after = with_negatives(chunk, negatives, layout, drawn(chunk, negatives, layout, DRAW), 0)
    assert after.weight.sum() == ROWS


@pytest.mark.parametrize("segments", [np.arange(ROWS).astype(str).astype(object), np.empty(0, np.object_)])
def test_a_part_of_the_rows_is_the_same_as_in_the_whole(segments: NDArray[np.object_]) -> None:
    chunk, negatives = encode(table(), columns(), with_labels=True), Negatives(NUMBER, 0.5, ITEM, ("history",))
    chunk = chunk._replace(facets=Facets(np.arange(ROWS, dtype=np.uint64), segments))
    layout, part = columns().layout, slice(100, 120)
    others = drawn(chunk, negatives, layout, DRAW)
    whole = with_negatives(chunk, negatives, layout, others, 0)
    some = with_negatives(chunk, negatives, layout, others[part], part.start)
    rows = slice(100 * (1 + NUMBER), 120 * (1 + NUMBER))
    np.testing.assert_array_equal(some.scalar, whole.scalar[:, rows])
    np.testing.assert_array_equal(some.weight, whole.weight[rows])
    assert some.facets is not None
    np.testing.assert_array_equal(some.facets.groups, np.repeat(np.arange(part.start, part.stop), 1 + NUMBER))
    np.testing.assert_array_equal(some.facets.segments, np.repeat(segments[part], 1 + NUMBER))
    assert [bag(some, 1, row) for row in range(20)] == [bag(whole, 1, rows.start + row) for row in range(20)]
