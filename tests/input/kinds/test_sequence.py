"""Sequences keep their order, their places and their fields together; the newest elements stay."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xpsql.algorithms.blocks.histories import HISTORIES
from xpsql.algorithms.chunk import Chunk
from xpsql.algorithms.linear.xftrl import XftrlOptions
from xpsql.platform.errors import DataError, StatementError
from xpsql.platform.input.batches import Batch, Ladders, batches, padded_length
from xpsql.platform.input.columns import Columns
from xpsql.platform.input.encode import encode
from xpsql.platform.input.slots import columns_of
from xpsql.platform.options import Named
from xpsql.platform.ps.compiled.ladder import Ladder
from xpsql.platform.ps.keys import feature_keys
from xpsql.platform.ps.messages import BatchId
from xpsql.platform.training.clauses.settings import Settings
from xpsql.platform.training.plan import Plan, Use

PLAN = Plan("", "m", Use("xftrl", {}, XftrlOptions()), (), "")
ITEMS, KINDS = [["a", "b", "c"], None, [], ["c", None]], [["x", None, "y"], [], None, [None, "z"]]


def columns_for(table: pa.Table, *histories: str, length: int = 10, **settings: Any) -> Columns:
    plan = Plan("", "m", Use("xftrl", {}, XftrlOptions()), (), "", settings=Settings(**settings))
    named = (Named("history", histories, "sequence", length),)
    return columns_of(table.schema, plan.roles._replace(named=named, algorithm="net"), None)


def log(items: list[Any], categories: list[Any]) -> pa.Table:
    arrays = [pa.array(values, pa.list_(pa.string())) for values in (items, categories)]
    return pa.table([pa.array([0, 1] * len(items)).slice(0, len(items)), *arrays], names=["label", "items", "kinds"])


def words(chunk: Chunk, columns: Columns, texts: str) -> list[list[list[str | None]]]:
    """Return what the fields of a chunk's one history are, by rows."""
    (history,) = chunk.block(HISTORIES)
    names = {}
    for slot in columns.slots:
        for text in texts:
            names[int(feature_keys(slot.source, pa.array([text]))[0])] = text
    found = [[None if code < 0 else names[int(chunk.keys[code])] for code in line] for line in history.codes]
    return [[line[a:b] for a, b in zip(history.offsets, history.offsets[1:], strict=False)] for line in found]


def test_null_elements_keep_their_place_in_every_field() -> None:
    table = log(ITEMS, KINDS)
    columns = columns_for(table, "items", "kinds")
    items, categories = words(encode(table, columns, with_labels=True), columns, "abcxyz")
    assert items == [["a", "b", "c"], [], [], ["c", None]]
    assert categories == [["x", None, "y"], [], [], [None, "z"]]


def test_the_last_elements_stay() -> None:
    table = log([["a", "b", "c"], ["b"]], [["x", None, "y"], ["z"]])
    columns = columns_for(table, "items", "kinds", length=2)
    chunk = encode(table, columns, with_labels=True)
    assert words(chunk, columns, "abcxyz") == [[["b", "c"], ["b"]], [[None, "y"], ["z"]]]
    assert int(feature_keys("items", pa.array(["a"]))[0]) not in chunk.keys.tolist()


def test_an_array_of_structs_is_a_history_of_its_fields() -> None:
    pairs = [[{"item": "a", "kind": "x"}, None, {"item": "b", "kind": None}], None, []]
    element = pa.struct([("item", pa.string()), ("kind", pa.string())])
    table = pa.table({"label": [0, 1, 0], "item": ["a", "b", "c"], "clicks": pa.array(pairs, pa.list_(element))})
    columns = columns_for(table, "clicks", share=(("clicks.item", "item"),))
    assert [slot.name for slot in columns.slots] == ["item", "clicks.item", "clicks.kind"]
    assert columns.inputs == ("item", "clicks")
    chunk = encode(table, columns, with_labels=True)
    assert words(chunk, columns, "abcxyz") == [[["a", None, "b"], [], []], [["x", None, None], [], []]]
    (history,) = chunk.block(HISTORIES)
    assert history.codes[0, 0] == chunk.scalar[0, 0]  # shared rows


def test_fields_of_different_lengths_are_refused_with_the_row() -> None:
    table = log([["a"], ["a", "b"], []], [["x"], ["x"], None])
    with pytest.raises(DataError, match=r"items and kinds are fields of one history.*row 1 has 2 and 1"):
        encode(table, columns_for(table, "items", "kinds"), with_labels=True)


def test_fields_that_are_cut_to_one_length_are_refused_too() -> None:
    table = log([["a", "b", "c"]], [["x", "y"]])
    with pytest.raises(DataError, match="row 0 has 3 and 2"):
        encode(table, columns_for(table, "items", "kinds", length=2), with_labels=True)


@pytest.mark.parametrize("type", [pa.string(), pa.list_(pa.float32()), pa.list_(pa.struct([("price", pa.float64())]))])
def test_a_history_that_is_no_array_of_categories_is_refused(type: pa.DataType) -> None:
    schema = pa.schema([("label", pa.int64()), ("items", type)])
    with pytest.raises(StatementError, match=r"^Option history of algorithm net expects arrays of categories.*items is"):
        columns_for(schema.empty_table(), "items")


def test_a_misspelt_history_is_refused_with_a_suggestion() -> None:
    with pytest.raises(StatementError, match=r"^Option history of algorithm net names 'itms'.*Did you mean items"):
        columns_for(log(ITEMS, KINDS), "itms")


def test_an_array_that_no_option_names_stays_a_bag() -> None:
    table = log(ITEMS, KINDS)
    columns = columns_for(table, "items")
    assert {slot.name: slot.kind for slot in columns.slots} == {"items": "sequence", "kinds": "multi-valued"}


def cut(table: pa.Table, batch_size: int, length: int) -> tuple[Chunk, list[Batch]]:
    chunk = encode(table, columns_for(table, "items", "kinds", length=length), with_labels=True)
    return chunk, list(batches(chunk, batch_size, BatchId(), Ladders(Ladder(), Ladder())))


@given(st.lists(st.lists(st.tuples(*[st.sampled_from(["a", "b", "c", None])] * 2), max_size=12), min_size=1, max_size=9))
def test_a_batch_has_the_elements_of_its_examples_in_order(rows: list[list[tuple[str | None, str | None]]]) -> None:
    table = log([[first for first, _ in row] for row in rows], [[second for _, second in row] for row in rows])
    _, cuts = cut(table, 4, 10)
    keys = {(s, t): int(feature_keys(s, pa.array([t]))[0]) for s in ("items", "kinds") for t in "abc"}
    for number, batch in enumerate(cuts):
        (history,) = batch.block(HISTORIES)
        assert history.rows.shape[1:] == history.mask.shape == (4, padded_length(history.mask.shape[1], 10))
        for example in range(4):
            own = rows[number * 4 + example][-10:] if example < batch.examples else []
            absent = [len(batch.keys)] * (history.mask.shape[1] - len(own))
            for line, (slot, found) in enumerate(zip(("items", "kinds"), history.rows[:, example], strict=True)):
                given = [element[line] for element in own]
                expected = [None if text is None else keys[slot, text] for text in given]
                assert [None if i == len(batch.keys) else int(batch.keys[i]) for i in found[: len(own)]] == expected
                assert found[len(own) :].tolist() == absent
            assert history.mask[example].tolist() == [any(pair) for pair in own] + [False] * len(absent)


def test_counts_are_those_of_the_elements_that_are_read() -> None:
    table = log([["a", "b", "a"], ["a"]], [["x", "x", "y"], [None]])
    _, (batch,) = cut(table, 2, 2)
    found = dict(zip(batch.keys.tolist(), zip(batch.counts.tolist(), batch.clicks.tolist(), strict=True), strict=True))
    named = {(s, t): found[int(feature_keys(s, pa.array([t]))[0])] for s, t in (("items", "a"), ("items", "b"), ("kinds", "x"))}
    assert named == {("items", "a"): (2, 1), ("items", "b"): (1, 0), ("kinds", "x"): (1, 0)}


def test_histories_are_padded_to_few_lengths() -> None:
    lengths = {padded_length(n, 50) for n in range(101)}
    assert lengths == {16, 50}
    assert padded_length(3, 5) == 5


def test_histories_of_some_rows_are_those_of_the_rows() -> None:
    table = log(ITEMS, KINDS)
    columns = columns_for(table, "items", "kinds")
    chunk = encode(table, columns, with_labels=True)
    taken = chunk.having(HISTORIES, [one.take(np.array([3, 0, 0, 1])) for one in chunk.block(HISTORIES)])
    assert words(taken, columns, "abcxyz")[0] == [["c", None], ["a", "b", "c"], ["a", "b", "c"], []]
