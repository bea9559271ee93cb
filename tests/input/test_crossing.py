"""Crosses in chunks: every combination of a row, under the key of the SQL function cross."""

from __future__ import annotations

import datetime
import itertools
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xpsql.algorithms.chunk import ABSENT, Chunk
from xpsql.platform.errors import DataError, StatementError
from xpsql.platform.input.columns import Columns
from xpsql.platform.input.crossed import encoding as crossing
from xpsql.platform.input.crossed.crossed_slots import MOST_CROSSES
from xpsql.platform.input.crossed.terms import Term
from xpsql.platform.input.encode import encode
from xpsql.platform.input.roles import Roles
from xpsql.platform.input.slots import columns_of
from xpsql.platform.ps._native import combinations, hash_cross
from xpsql.platform.ps.keys import cross_keys, feature_keys, slot_seed

WANTED = Roles((), None, None, None, None, (), (), (), True, False)


def term(text: str, order: int | None = None) -> Term:
    names = tuple(text.split("*"))
    return Term(text, names, order or len(names))


def columns_for(table: pa.Table, *texts: str, nulls: bool = True) -> Columns:
    return columns_of(table.schema, WANTED._replace(crosses=tuple(map(term, texts)), nulls=nulls), None)


def written(value: object) -> str:
    """Return a value as cross writes it."""
    if value is None:
        return "\\N"
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return text.replace("\\", "\\\\").replace("|", "\\|")


def key(slot: str, *values: object) -> int:
    return int(feature_keys(slot, pa.array(["|".join(map(written, values))]))[0])


def keys_of(chunk: Chunk, columns: Columns, slot: str) -> list[list[int]]:
    """Return the keys that each row has of a slot."""
    names = [one.name for one in columns.scalar]
    if slot in names:
        return [[] if code == ABSENT else [int(chunk.keys[code])] for code in chunk.scalar[names.index(slot)]]
    bag = chunk.bags[[one.name for one in columns.bags].index(slot)]
    return [[int(k) for k in chunk.keys[part]] for part in np.split(bag.codes, bag.offsets[1:-1])]


TEXTS = st.one_of(st.none(), st.text(alphabet="ab|\\é", max_size=40))
ROW = st.tuples(TEXTS, TEXTS, st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)))
Row = tuple[str | None, str | None, int | None]


@given(
    st.lists(st.tuples(TEXTS, TEXTS, st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1))), min_size=1, max_size=30),
    st.booleans(),
)
def test_the_key_of_a_cross_is_that_of_the_text_of_cross(rows: list[Row], large: bool) -> None:
    kind = pa.large_string() if large else pa.string()
    a, b, c = zip(*rows, strict=True)
    table = pa.table({"a": pa.array(a, kind), "b": pa.array(b, kind), "c": pa.array(c, pa.int64())})
    columns = columns_for(table, "a*b", "a*b*c")
    chunk = encode(table, columns, with_labels=False)
    assert keys_of(chunk, columns, "a*b") == [[key("a*b", *row[:2])] for row in rows]
    assert keys_of(chunk, columns, "a*b*c") == [[key("a*b*c", *row)] for row in rows]


def test_values_of_every_type_are_written_as_sql_writes_them() -> None:
    day = datetime.date(2024, 2, 29)
    table = pa.table(
        {
            "text": pa.array(["x", "y"]).dictionary_encode(),
            "flag": [True, False],
            "small": pa.array([-3, 4], pa.int16()),
            "day": pa.array([day, None]),
        }
    )
    columns = columns_for(table, "text*flag*small*day")
    chunk = encode(table, columns, with_labels=False)
    wanted = [[key("text*flag*small*day", "x", True, -3, day)], [key("text*flag*small*day", "y", False, 4, None)]]
    assert keys_of(chunk, columns, "text*flag*small*day") == wanted


def test_each_value_of_an_array_meets_each_of_the_others_with_the_product_of_their_weights() -> None:
    tags = [["p", "q"], [], None, ["p", None, "p|"]]
    words = [{"u": 2.0, "v": 0.5}, {"u": 1.0}, {"u": 1.0}, {"v": 3.0, "w": None}]
    table = pa.table(
        {
            "one": ["x", "y", None, None],
            "tags": pa.array(tags, pa.list_(pa.string())),
            "words": pa.array([list(row.items()) for row in words], pa.map_(pa.string(), pa.float32())),
        }
    )
    columns = columns_for(table, "one*tags", "words*tags")
    assert [slot.kind for slot in columns.crosses] == ["multi-valued", "weighted"]
    chunk = encode(table, columns, with_labels=False)
    there = [[tag for tag in row or [] if tag is not None] for row in tags]
    wanted = [[key("one*tags", value, tag) for tag in row] for value, row in zip(table["one"].to_pylist(), there, strict=True)]
    assert keys_of(chunk, columns, "one*tags") == wanted
    pairs = [
        list(itertools.product([w for w in row if row[w] is not None], own)) for row, own in zip(words, there, strict=True)
    ]
    assert keys_of(chunk, columns, "words*tags") == [[key("words*tags", *pair) for pair in row] for row in pairs]
    weights = [row[word] for row, own in zip(words, pairs, strict=True) for word, _ in own]
    bag = chunk.bags[[slot.name for slot in columns.bags].index("words*tags")]
    np.testing.assert_array_equal(bag.weights, np.array(weights, np.float32))


def test_where_a_null_is_no_feature_it_is_in_no_cross() -> None:
    table = pa.table({"a": ["x", None, "x"], "b": pa.array([1, 2, None], pa.int32()), "t": [["p"], ["p"], ["p"]]})
    columns = columns_for(table, "a*b", "a*t", nulls=False)
    chunk = encode(table, columns, with_labels=False)
    assert keys_of(chunk, columns, "a*b") == [[key("a*b", "x", 1)], [], []]
    assert keys_of(chunk, columns, "a*t") == [[key("a*t", "x", "p")], [], [key("a*t", "x", "p")]]


def test_pieces_of_a_column_and_slices_give_the_same_keys() -> None:
    whole = pa.table({"a": ["x", "y", "z", "x"], "b": [1, 2, 3, None], "t": [["p"], ["q", "p"], [], ["p"]]})
    columns = columns_for(whole, "a*b", "a*t")
    pieces = pa.concat_tables([whole.slice(1, 2), whole.slice(3), whole.slice(0, 1)])
    one, other = encode(whole, columns, with_labels=False), encode(pieces, columns, with_labels=False)
    for slot in ("a*b", "a*t"):
        keys = keys_of(one, columns, slot)
        assert keys_of(other, columns, slot) == [keys[1], keys[2], keys[3], keys[0]]


def test_no_rows_have_no_crosses() -> None:
    table = pa.table({"a": pa.array([], pa.string()), "t": pa.array([], pa.list_(pa.string()))})
    columns = columns_for(table, "a*t")
    assert keys_of(encode(table, columns, with_labels=False), columns, "a*t") == [[]]


def test_arrays_with_too_many_combinations_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crossing, "MOST_VALUES", 11)
    table = pa.table({"s": [["a", "b", "c"]], "t": [["d", "e", "f", "g"]]})
    with pytest.raises(DataError, match=r"makes 12 values of s\*t in 1 rows; 11 are the most. Shorten"):
        encode(table, columns_for(table, "s*t"), with_labels=False)


def test_all_pairs_of_all_slots_are_those_that_can_be_crossed() -> None:
    table = pa.table({"a": ["x"], "price": [1.5], "b": [1], "t": [["p"]], "v": pa.array([[0.5]], pa.list_(pa.float32()))})
    pairs = columns_of(table.schema, WANTED._replace(crosses=(Term("* ^ 2", (), 2),)), None).crosses
    assert [slot.members for slot in pairs] == [("a", "b"), ("a", "t"), ("b", "t")]
    assert [slot.number for slot in pairs] == [5, 6, 7]


@pytest.mark.parametrize(
    ("terms", "words"),
    [
        ((term("a*c"),), r"CROSS a\*c names 'c', which is not learned from. .*Valid: a, b"),
        ((term("a*price"),), r"price is continuous \(double\). Cut its numbers into parts first: bucketize\(price, "),
        ((term("a*b"), term("b*a")), r"CROSS b\*a makes b\*a, and a\*b is the same cross"),
        ((Term("* ^ 4", (), 4),), r"CROSS \* \^ 4 needs 4 slots of categories; the query returns 2"),
        ((term("a*x*y"),), "names 'x'"),
    ],
)
def test_what_cannot_be_crossed_is_refused(terms: tuple[Term, ...], words: str) -> None:
    table = pa.table({"a": ["x"], "b": [1], "price": [1.5]})
    with pytest.raises(StatementError, match=words) as refused:
        columns_of(table.schema, WANTED._replace(crosses=terms), None)
    assert refused.value.subject == terms[-1].subject


def test_a_column_named_as_a_cross_is_refused() -> None:
    table = pa.table({"a": ["x"], "b": [1], "A*b": [1]})
    with pytest.raises(StatementError, match=r"makes the slot a\*b, and the query returns it"):
        columns_for(table, "a*b")


def test_so_many_crosses_that_no_model_has_them_are_refused() -> None:
    table = pa.table({f"c{i}": ["x"] for i in range(46)})
    with pytest.raises(StatementError, match=f"makes 1,035 crosses of 46 slots; a model has at most {MOST_CROSSES:,}"):
        columns_of(table.schema, WANTED._replace(crosses=(Term("* ^ 2", (), 2),)), None)


def test_combinations_are_counted_in_the_order_of_their_first_occurrence() -> None:
    first, inverse = combinations(np.array([[3, -1, 3, 1, 3], [0, 0, 1, 0, 0]], np.int32))
    assert (first.tolist(), inverse.tolist()) == ([0, 2, 3], [0, -1, 1, 2, 0])


def test_memory_that_leads_out_of_itself_is_refused() -> None:
    text = np.frombuffer(b"abc", np.uint8)
    good, at = np.array([0, 1, 3], np.int32), np.array([0, 1])
    for ends, positions in ((good, np.array([0, 2])), (good, np.array([0, -1])), (np.array([0, 1, 4], np.int32), at)):
        with pytest.raises(ValueError, match="positions must be those of values"):
            hash_cross([(ends, text, None, 0, positions)], 2, 42)
    with pytest.raises(ValueError, match="validity must hold 2 bits"):
        hash_cross([(good, text, np.empty(0, np.uint8), 0, at)], 2, 42)
    assert (
        hash_cross([(good, text, None, 0, at)], 2, slot_seed("s")).tolist() == feature_keys("s", pa.array(["a", "bc"])).tolist()
    )


def test_numbers_have_no_text_to_cross() -> None:
    with pytest.raises(TypeError, match="CAST it AS STRING"):
        cross_keys("s", [(pa.array([1.5]), np.array([0]))])


def test_a_cross_is_no_column_that_is_read() -> None:
    table = pa.table({"a": ["x"], "b": [1]})
    columns = columns_for(table, "a*b")
    assert columns.inputs == ("a", "b")
    assert replace(columns, slots=columns.slots[:2]).crosses == ()
