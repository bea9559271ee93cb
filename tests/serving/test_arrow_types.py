"""A column of any type of Arrow, whatever its memory holds, is cast to a model's column by SQL's rules or refused with 400."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator

import pyarrow as pa
import pytest

from tests.cases import lengthy
from tests.serving.conftest import ROW, Client
from xpsql.platform.serving.arrow_stream import CONTENT_TYPE
from xpsql.platform.serving.inputs import Input
from xpsql.platform.serving.refusal import RequestError

ROWS, TRIES = 3, 4
ZONES = (None, "UTC", "Europe/Paris", "+02:00", "Nowhere/Land", "")
FIXED = [
    pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64(), pa.float16(),
    pa.float32(), pa.float64(), pa.date32(), pa.date64(), pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns"),
    pa.month_day_nano_interval(), pa.binary(5), *(pa.duration(unit) for unit in ("s", "ms", "us", "ns")),
    *(pa.timestamp(unit, zone) for unit in ("s", "ms", "us", "ns") for zone in ZONES), pa.decimal32(9, 2), pa.decimal64(18, 3),
    pa.decimal128(38, 2), pa.decimal128(5, -3), pa.decimal256(76, 2), pa.decimal128(30, 2_130_706_434),
    pa.decimal128(30, -2_130_706_434),
]  # fmt: skip
WORDS = ["", "1", "é", "NaN", "2024-01-01", "1e400", "99999999999999999999999", "true", "\x00"]
INPUTS = [
    pa.string(), pa.bool_(), pa.int8(), pa.int64(), pa.uint64(), pa.float32(), pa.float64(), pa.decimal128(10, 2), pa.date32(),
    pa.timestamp("us", "UTC"), pa.list_(pa.string()), pa.list_(pa.int64()), pa.list_(pa.float32()),
    pa.map_(pa.string(), pa.float32()),
]  # fmt: skip


def flat(chance: random.Random) -> Iterator[pa.Array]:
    """Yield valid columns of three rows of each type without children, some of random memory."""
    for kind, _ in itertools.product(FIXED, range(TRIES)):
        made = pa.Array.from_buffers(kind, ROWS, [None, pa.py_buffer(chance.randbytes(ROWS * 32))])
        try:
            made.validate(full=True)
        except pa.ArrowException:
            made = pa.Array.from_buffers(kind, ROWS, [None, pa.py_buffer(bytes(ROWS * 32))])
        yield made
    for kind in (pa.string(), pa.large_string(), pa.string_view()):
        yield from (pa.array(chance.choices(WORDS, k=ROWS), kind) for _ in range(TRIES))
    for kind in (pa.binary(), pa.large_binary(), pa.binary_view()):
        yield pa.array([b"a", b"\xff", None], kind)
    yield pa.nulls(ROWS)


def within(values: pa.Array) -> Iterator[pa.Array]:
    """Yield a column, and columns whose values have its values in them."""
    yield values
    starts = [0, 1, 2, ROWS]
    yield pa.ListArray.from_arrays(starts, values)
    yield pa.LargeListArray.from_arrays(starts, values)
    yield pa.ListViewArray.from_arrays([0, 1, 0], [1, 2, 0], values)
    yield pa.FixedSizeListArray.from_arrays(values, 1)
    yield pa.StructArray.from_arrays([values], ["a"])
    yield pa.MapArray.from_arrays(starts, pa.array(["a", "b", "a"]), values)
    if not values.null_count:
        yield pa.MapArray.from_arrays(starts, values, pa.array([1.0, None, 2.0], pa.float32()))
    yield pa.DictionaryArray.from_arrays(pa.array([0, None, 2], pa.int8()), values)
    yield pa.RunEndEncodedArray.from_arrays(pa.array([1, 2, 3], pa.int32()), values)
    yield pa.UnionArray.from_dense(pa.array([0, 0, 0], pa.int8()), pa.array([0, 1, 2], pa.int32()), [values])


@lengthy
@pytest.mark.parametrize("kind", INPUTS, ids=str)
def test_a_column_of_any_arrow_type_is_cast_or_refused(kind: pa.DataType) -> None:
    column, cast = Input("c", None, kind), 0
    for values in itertools.chain.from_iterable(map(within, flat(random.Random(7)))):
        try:
            found = column.cast(values)
        except RequestError:
            continue
        assert kind in (found.type, getattr(found.type, "value_type", None))
        found.validate(full=True)
        cast += 1
    assert cast > 2


@lengthy
def test_a_decimal_of_a_scale_that_no_number_has_is_refused_with_its_reason(client: Client) -> None:
    columns = {name: pa.array([value]) for name, value in ROW.items() if name != "words"}
    columns["words"] = pa.array([[("w1", 2.0)]], pa.map_(pa.string(), pa.float32()))
    columns["ad"] = pa.Array.from_buffers(pa.decimal128(30, 2_130_706_434), 1, [None, pa.py_buffer(b"\x01" + bytes(15))])
    sink = pa.BufferOutputStream()
    batch = pa.record_batch(columns)
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    words = client.problem("/v1/models/ctr:predict", sink.getvalue().to_pybytes(), content_type=CONTENT_TYPE)
    assert words.startswith("Column ad: expected bigint, got decimal128(30, 2130706434), which has no such values")
