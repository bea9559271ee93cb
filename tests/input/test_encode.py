"""Columns become keys that plain Spark SQL computes too."""

from __future__ import annotations

import datetime
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from xpsql.algorithms.chunk import Chunk
from xpsql.algorithms.linear.xftrl import XftrlOptions
from xpsql.platform.errors import StatementError
from xpsql.platform.input.columns import INTERCEPT, Columns
from xpsql.platform.input.encode import encode
from xpsql.platform.input.kinds.vector import vector_lines
from xpsql.platform.input.slots import columns_of
from xpsql.platform.ps.keys import feature_keys, hashed_keys, slot_seed
from xpsql.platform.training.clauses.settings import Settings
from xpsql.platform.training.clauses.weight import Weight
from xpsql.platform.training.plan import Plan, Use


def plan(**settings: Any) -> Plan:
    clauses = {name.upper(): settings.pop(name) for name in ("weight", "time", "ignore") if name in settings}
    if "WEIGHT" in clauses:
        clauses["WEIGHT"] = Weight(clauses["WEIGHT"])
    return Plan("", "m", Use("xftrl", {}, XftrlOptions()), (), "", Settings(**settings), clauses)


def encoded(table: pa.Table, intercept: bool = False, **settings: Any) -> tuple[Columns, Chunk]:
    columns = replace(columns_of(table.schema, plan(**settings).roles, None), intercept=intercept)
    return columns, encode(table, columns, with_labels=True)


def label(n: int) -> pa.Array:
    return pa.array(np.arange(n) % 2, pa.int8())


def keys_of(chunk: Chunk, line: int) -> list[int | None]:
    return [None if code < 0 else int(chunk.keys[code]) for code in chunk.scalar[line]]


def key(slot: str, value: str) -> int:
    return int(feature_keys(slot, pa.array([value]))[0])


@pytest.mark.parametrize(
    ("values", "texts"),
    [
        (pa.array(["a", None, "", "ä"]), ["a", None, "", "ä"]),
        (pa.array(["x", "y", "x"]).dictionary_encode(), ["x", "y", "x"]),
        (pa.array([1, None, -7], pa.int32()), ["1", None, "-7"]),
        (pa.array([2**63 - 1, -(2**63)], pa.int64()), [str(2**63 - 1), str(-(2**63))]),
        (pa.array([True, False, None]), ["true", "false", None]),
        (pa.array([datetime.date(2013, 1, 31), None]), ["2013-01-31", None]),
    ],
)
def test_a_categorical_value_has_the_key_of_its_text(values: pa.Array, texts: list[str | None]) -> None:
    _, chunk = encoded(pa.table({"label": label(len(values)), "s": values}))
    assert keys_of(chunk, 0) == [slot_seed("s") if text is None else key("s", text) for text in texts]


def test_null_is_absent_when_the_user_says_so() -> None:
    _, chunk = encoded(pa.table({"label": label(3), "s": ["a", None, "b"]}), nulls="absent")
    assert keys_of(chunk, 0) == [key("s", "a"), None, key("s", "b")]


def test_chunks_of_a_column_share_the_codes_of_equal_values() -> None:
    column = pa.chunked_array([pa.array(["a", "b"]).dictionary_encode(), pa.array(["b", None, "c"]).dictionary_encode()])
    _, chunk = encoded(pa.table({"label": label(5), "s": column}))
    assert keys_of(chunk, 0) == [key("s", "a"), key("s", "b"), key("s", "b"), slot_seed("s"), key("s", "c")]
    assert len(set(chunk.keys.tolist())) == len(chunk.keys) == 4


def test_a_shared_slot_uses_the_keys_and_the_number_of_the_other() -> None:
    table = pa.table({"label": label(2), "item": ["a", "b"], "history": [["b", "c"], None]})
    columns, chunk = encoded(table, share=(("history", "item"),))
    assert [int(chunk.keys[c]) for c in chunk.bags[0].codes] == [key("item", "b"), key("item", "c")]
    assert set(chunk.slots.tolist()) == {columns.slots[0].number}


def test_ready_made_ids_are_hashed_as_bigint() -> None:
    _, chunk = encoded(pa.table({"label": label(2), "id": pa.array([5, -5], pa.int64())}), hashed=("id",))
    assert keys_of(chunk, 0) == hashed_keys("id", pa.array([5, -5])).tolist()


def test_arrays_and_maps_keep_their_values_without_nulls() -> None:
    tags = pa.array([["a", None, "b"], None, [], ["b"]])
    scores = pa.array([[("x", 2.0), ("y", None)], None, [("z", -1.0)], []], pa.map_(pa.string(), pa.float64()))
    _, chunk = encoded(pa.table({"label": label(4), "tags": tags, "scores": scores}))
    first, second = chunk.bags
    assert first.offsets.tolist() == [0, 2, 2, 2, 3]
    assert [int(chunk.keys[c]) for c in first.codes] == [key("tags", "a"), key("tags", "b"), key("tags", "b")]
    assert second.offsets.tolist() == [0, 1, 1, 2, 2]
    assert second.weights.tolist() == [2.0, -1.0]


def test_a_sliced_table_encodes_like_its_own_rows() -> None:
    maps = pa.array([[("x", 1.0)], [("y", 2.0), ("x", 3.0)], None], pa.map_(pa.string(), pa.float32()))
    table = pa.table({"label": label(3), "s": ["a", "b", "c"], "t": [["p"], ["q", "r"], None], "m": maps})
    _, whole = encoded(table.slice(1))
    _, copied = encoded(pa.concat_tables([table.slice(1)]).combine_chunks())
    assert whole.keys.tolist() == copied.keys.tolist()
    assert (
        [bag.offsets.tolist() for bag in whole.bags] == [bag.offsets.tolist() for bag in copied.bags] == [[0, 2, 2], [0, 2, 2]]
    )


def test_numbers_and_vectors_are_dense_lines() -> None:
    columns = {"label": label(2), "x": [1.5, None], "v": pa.array([[1.0, 2.0], None], pa.list_(pa.float32()))}
    table = pa.table(columns)
    made = columns_of(table.schema, plan().roles, None)
    slots = tuple(slot if slot.kind != "vector" else slot.__class__(**{**slot.__dict__, "dim": 2}) for slot in made.slots)
    chunk = encode(table, Columns(**{**made.__dict__, "slots": slots}), with_labels=True)
    np.testing.assert_array_equal(chunk.dense, np.array([[1.5, np.nan], [1.0, np.nan], [2.0, np.nan]], np.float32))
    assert chunk.keys[chunk.dense_codes].tolist() == [slot_seed("x"), *hashed_keys("v", pa.array([0, 1])).tolist()]


def test_vectors_of_decimals_are_those_of_doubles() -> None:
    doubles = pa.array([[0.5, 2.25], None], pa.list_(pa.float64()))
    decimals = doubles.cast(pa.list_(pa.decimal128(4, 2)))
    (slot,) = columns_of(pa.table({"label": label(2), "v": decimals}).schema, plan().roles, None).slots
    assert slot.kind == "vector"
    lines = [vector_lines(column, replace(slot, dim=2), "") for column in (decimals, doubles)]
    np.testing.assert_array_equal(*lines)


def test_the_intercept_is_a_feature_of_every_example() -> None:
    _, chunk = encoded(pa.table({"label": label(2), "s": ["a", "b"]}), intercept=True)
    assert keys_of(chunk, 1) == [slot_seed(INTERCEPT)] * 2


def test_time_is_seconds_and_weight_a_number() -> None:
    moment = datetime.datetime(2013, 1, 1, 0, 0, 5)
    table = pa.table({"label": label(2), "s": ["a", "b"], "w": [0.5, 2.0], "t": pa.array([moment, None], pa.timestamp("us"))})
    _, chunk = encoded(table, weight="w", time="t")
    assert chunk.weight.tolist() == [0.5, 2.0]
    assert chunk.time.tolist() == [1356998405, 0]


@pytest.mark.parametrize(
    ("table", "settings", "message"),
    [
        ({"s": ["a"]}, {}, "Without a clause LABEL the label is the column 'label', which the query does not return"),
        ({"label": [1], "s": [b"a"]}, {}, "cannot be a slot"),
        ({"label": [1], "s": [datetime.datetime(2013, 1, 1)]}, {}, "cannot be a slot"),
        (
            {"label": [1], "s": [{"a": 1}]},
            {},
            r"cannot be a slot. Select its fields \(s\.a AS s_a, \.\.\.\) or to_json\(s\), or",
        ),
        ({"label": [b"1"], "s": ["a"]}, {}, "LABEL expects a number"),
        ({"label": [1]}, {}, "no column to learn from"),
        ({"label": [1], "s": ["a"]}, {"hashed": ("s",)}, "hashed expects a BIGINT"),
        ({"label": [1], "s": ["a"]}, {"weight": "w"}, "WEIGHT names 'w'"),
        ({"label": [1], "s": ["a"], "x": [1.0]}, {"share": (("s", "x"),)}, "share expects categorical"),
        ({"label": [1], "s": ["a"], "t": ["x"]}, {"time": "t"}, "TIME expects a timestamp"),
    ],
)
def test_columns_that_cannot_be_learned_from_are_refused(table: dict[str, Any], settings: dict[str, Any], message: str) -> None:
    with pytest.raises(StatementError, match=message):
        encoded(pa.table(table), **settings)


@pytest.mark.parametrize("dictionary", [False, True])
def test_the_text_null_is_another_segment_and_group_than_null(dictionary: bool) -> None:
    values = pa.array([None, "NULL", "'NULL'", "a", None])
    column = values.dictionary_encode() if dictionary else values
    columns = replace(
        columns_of(pa.schema({"label": pa.int8(), "x": pa.string()}), plan().roles, None), by="x", group="x", grouped=True
    )
    facets = encode(pa.table({"label": label(5), "x": column}), columns, with_labels=True).facets
    assert facets is not None
    assert facets.segments.tolist() == ["NULL", "'NULL'", "''NULL''", "a", "NULL"]
    assert len(set(facets.groups.tolist())) == 4


def test_two_columns_of_one_name_are_refused() -> None:
    table = pa.Table.from_arrays([label(1), pa.array(["a"]), pa.array(["b"])], ["label", "s", "S"])
    with pytest.raises(StatementError, match="two columns named s"):
        encoded(table)
