"""Keys equal Spark's xxhash64, by values that Spark 4.3 gave and, where Java is present, by Spark itself."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from xpsql.platform.ps.hashes import xxhash64
from xpsql.platform.ps.keys import NUM_SLICES, feature_keys, hashed_keys, raw_ids, raw_keys, slices, slot_seed

LONG = "x" * 31 + "yz" * 40
I8, I16, I32, I64 = pa.int8(), pa.int16(), pa.int32(), pa.int64()


def date(year: int, month: int, day: int) -> datetime.date:
    return datetime.date(year, month, day)


def moment(*parts: int) -> datetime.datetime:
    return datetime.datetime(*parts)  # type: ignore[arg-type]


def strings(*values: str | None) -> list[tuple[Any, pa.DataType]]:
    return [(value, pa.string()) for value in values]


# Spark's arguments of xxhash64 -> the same as (value, type) columns.
EXPRESSIONS: dict[str, list[tuple[Any, pa.DataType]]] = {
    "''": strings(""),
    "'a'": strings("a"),
    "'abc'": strings("abc"),
    "'abcd'": strings("abcd"),
    "'abcdefgh'": strings("abcdefgh"),
    "'0123456789abcdef0123456789abcde'": strings("0123456789abcdef0123456789abcde"),
    "'0123456789abcdef0123456789abcdef'": strings("0123456789abcdef0123456789abcdef"),
    "concat(repeat('x', 31), repeat('yz', 40))": strings(LONG),
    "repeat('0123456789', 1000)": strings("0123456789" * 1000),
    "'Zürich'": strings("Zürich"),
    "'東京 🗼'": strings("東京 🗼"),
    "'a', 'b'": strings("a", "b"),
    "'a', cast(null as string), 'b'": strings("a", None, "b"),
    "cast(null as string)": strings(None),
    "'', ''": strings("", ""),
    "X''": [(b"", pa.binary())],
    "X'00FF80'": [(b"\x00\xff\x80", pa.binary())],
    "true": [(True, pa.bool_())],
    "false": [(False, pa.bool_())],
    "cast(null as boolean)": [(None, pa.bool_())],
    "1Y": [(1, I8)],
    "-128Y": [(-128, I8)],
    "32767S": [(32767, I16)],
    "-1S": [(-1, I16)],
    "0": [(0, I32)],
    "1": [(1, I32)],
    "-1": [(-1, I32)],
    "2147483647": [(2147483647, I32)],
    "-2147483648": [(-2147483648, I32)],
    "0L": [(0, I64)],
    "42L": [(42, I64)],
    "-42L": [(-42, I64)],
    "9223372036854775807L": [(2**63 - 1, I64)],
    "-9223372036854775807L - 1L": [(-(2**63), I64)],
    "cast(null as bigint), 7L": [(None, I64), (7, I64)],
    "1, 2L, 'three'": [(1, I32), (2, I64), ("three", pa.string())],
    "cast(0.0 as float)": [(0.0, pa.float32())],
    "cast(-0.0 as float)": [(-0.0, pa.float32())],
    "cast(1.5 as float)": [(1.5, pa.float32())],
    "cast('NaN' as float)": [(float("nan"), pa.float32())],
    "cast('-Infinity' as float)": [(float("-inf"), pa.float32())],
    "0.0D": [(0.0, pa.float64())],
    "-0.0D": [(-0.0, pa.float64())],
    "3.141592653589793D": [(3.141592653589793, pa.float64())],
    "-1e300D": [(-1e300, pa.float64())],
    "cast('NaN' as double)": [(float("nan"), pa.float64())],
    "cast(null as double)": [(None, pa.float64())],
    "cast(12.34 as decimal(4, 2))": [(Decimal("12.34"), pa.decimal128(4, 2))],
    "cast(-12.34 as decimal(18, 2))": [(Decimal("-12.34"), pa.decimal128(18, 2))],
    "cast(0 as decimal(19, 0))": [(Decimal(0), pa.decimal128(19, 0))],
    "cast(127 as decimal(20, 0))": [(Decimal(127), pa.decimal128(20, 0))],
    "cast(128 as decimal(20, 0))": [(Decimal(128), pa.decimal128(20, 0))],
    "cast(-128 as decimal(20, 0))": [(Decimal(-128), pa.decimal128(20, 0))],
    "cast(-129 as decimal(20, 0))": [(Decimal(-129), pa.decimal128(20, 0))],
    "cast('12345678901234567890.123456' as decimal(38, 6))": [(Decimal("12345678901234567890.123456"), pa.decimal128(38, 6))],
    "cast('-99999999999999999999999999999999999999' as decimal(38, 0))": [(Decimal("-" + "9" * 38), pa.decimal128(38, 0))],
    "DATE'1970-01-01'": [(date(1970, 1, 1), pa.date32())],
    "DATE'2013-12-31'": [(date(2013, 12, 31), pa.date32())],
    "DATE'1582-01-01'": [(date(1582, 1, 1), pa.date32())],
    "TIMESTAMP_NTZ'2013-01-01 05:15:00'": [(moment(2013, 1, 1, 5, 15), pa.timestamp("us"))],
    "TIMESTAMP'1969-12-31 23:59:59.999999'": [(moment(1969, 12, 31, 23, 59, 59, 999999), pa.timestamp("us", "UTC"))],
    "array(1, null, 2)": [([1, None, 2], pa.list_(I32))],
    "array('a', ''), 'b'": [(["a", ""], pa.list_(pa.string())), ("b", pa.string())],
    "cast(array() as array<bigint>)": [([], pa.list_(I64))],
    "array(array(1, 2), array(3))": [([[1, 2], [3]], pa.list_(pa.list_(I32)))],
    "named_struct('a', 1, 'b', 'x')": [({"a": 1, "b": "x"}, pa.struct({"a": I32, "b": pa.string()}))],
    "'user_id', '42'": strings("user_id", "42"),
    "'user_id', 42L": [("user_id", pa.string()), (42, I64)],
}

# What Spark 4.3.0 answered.
GOLDEN: dict[str, int] = {
    "''": -7444071767201028348,
    "'a'": -8582455328737087284,
    "'abc'": 1423657621850124518,
    "'abcd'": -6810745876291105281,
    "'abcdefgh'": 2470326616177429180,
    "'0123456789abcdef0123456789abcde'": 6207258418261489360,
    "'0123456789abcdef0123456789abcdef'": 7380026953736478117,
    "concat(repeat('x', 31), repeat('yz', 40))": -219054386404026918,
    "repeat('0123456789', 1000)": -6324659182017587037,
    "'Zürich'": -2199928141300491114,
    "'東京 🗼'": 1249921656805365567,
    "'a', 'b'": -7357372313250070212,
    "'a', cast(null as string), 'b'": -7357372313250070212,
    "cast(null as string)": 42,
    "'', ''": 6372822119346140258,
    "X''": -7444071767201028348,
    "X'00FF80'": 7869338589911211550,
    "true": -6698625589789238999,
    "false": 3614696996920510707,
    "cast(null as boolean)": 42,
    "1Y": -6698625589789238999,
    "-128Y": 4160238337661960656,
    "32767S": 8952525448871805501,
    "-1S": 2017008487422258757,
    "0": 3614696996920510707,
    "1": -6698625589789238999,
    "-1": 2017008487422258757,
    "2147483647": 1508894993788531228,
    "-2147483648": 2073849959933241805,
    "0L": -5252525462095825812,
    "42L": -6876166290308861218,
    "-42L": -6086559926526557199,
    "9223372036854775807L": -3246596055638297850,
    "-9223372036854775807L - 1L": -8619748838626508300,
    "cast(null as bigint), 7L": -2864211556195259663,
    "1, 2L, 'three'": 1899456633511577371,
    "cast(0.0 as float)": 3614696996920510707,
    "cast(-0.0 as float)": 3614696996920510707,
    "cast(1.5 as float)": 6163473420726370430,
    "cast('NaN' as float)": 2692338816207849720,
    "cast('-Infinity' as float)": -7580553461823983095,
    "0.0D": -5252525462095825812,
    "-0.0D": -5252525462095825812,
    "3.141592653589793D": 5978819882446174359,
    "-1e300D": 3086024234770041280,
    "cast('NaN' as double)": -3127944061524951246,
    "cast(null as double)": 42,
    "cast(12.34 as decimal(4, 2))": -3802813071951760351,
    "cast(-12.34 as decimal(18, 2))": -1614697014534150208,
    "cast(0 as decimal(19, 0))": -8959994473701255385,
    "cast(127 as decimal(20, 0))": -5998106174972408993,
    "cast(128 as decimal(20, 0))": 6715097930120473301,
    "cast(-128 as decimal(20, 0))": -7898411661632158123,
    "cast(-129 as decimal(20, 0))": -6459515886037897956,
    "cast('12345678901234567890.123456' as decimal(38, 6))": -5216774783802289101,
    "cast('-99999999999999999999999999999999999999' as decimal(38, 0))": -2254039905620870768,
    "DATE'1970-01-01'": 3614696996920510707,
    "DATE'2013-12-31'": -384576649632608061,
    "DATE'1582-01-01'": -4874560816480864897,
    "TIMESTAMP_NTZ'2013-01-01 05:15:00'": -2062643837833220815,
    "TIMESTAMP'1969-12-31 23:59:59.999999'": 3858142552250413010,
    "array(1, null, 2)": -8133857028838179022,
    "array('a', ''), 'b'": -6281004358532547057,
    "cast(array() as array<bigint>)": 42,
    "array(array(1, 2), array(3))": 8592097078962733837,
    "named_struct('a', 1, 'b', 'x')": 8510603489595372987,
    "'user_id', '42'": 2536563327309846858,
    "'user_id', 42L": -8523504866001755800,
}


def columns(expression: str) -> list[pa.Array]:
    return [pa.array([value], kind) for value, kind in EXPRESSIONS[expression]]


def key(expression: str) -> int:
    return int(xxhash64(columns(expression)).view(np.int64)[0])


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_xxhash64_gives_the_value_that_spark_gave(expression: str) -> None:
    assert key(expression) == GOLDEN[expression]


def test_keys_equal_a_live_spark(spark: SparkSession) -> None:
    hashes = ", ".join(f"xxhash64({expression})" for expression in EXPRESSIONS)
    days = [-719528, -719529, -719162, 0, 2932896, 2932897]
    dates = ", ".join(f"xxhash64('d', CAST(date_add(DATE'1970-01-01', {day}) AS STRING))" for day in days)
    from_spark, dates_from_spark = (list(spark.sql(f"SELECT {asked}").collect()[0]) for asked in (hashes, dates))
    assert from_spark == [key(expression) for expression in EXPRESSIONS]
    assert dates_from_spark == feature_keys("d", pa.array(days, pa.int32()).view(pa.date32())).view(np.int64).tolist()


# Values of one slot as Arrow has them, and the text that Spark's CAST gives.
TEXTS: list[tuple[pa.Array, list[str | None]]] = [
    (pa.array(["a", None, "", "Zürich"]), ["a", None, "", "Zürich"]),
    (pa.array(["a", None, LONG], pa.large_string()), ["a", None, LONG]),
    (pa.array(["a", None, LONG], pa.string_view()), ["a", None, LONG]),
    (pa.array([b"a", None], pa.binary()), ["a", None]),
    (pa.array([True, None, False]), ["true", None, "false"]),
    (pa.array([0, -5, None, 127], pa.int8()), ["0", "-5", None, "127"]),
    (pa.array([1, None, -(2**63), 2**63 - 1], pa.int64()), ["1", None, str(-(2**63)), str(2**63 - 1)]),
    (pa.array([2**64 - 1, None], pa.uint64()), [str(2**64 - 1), None]),
    (pa.array([date(2013, 1, 9), None, date(1, 2, 3)]), ["2013-01-09", None, "0001-02-03"]),
    (pa.array([2932897, -719528, -719529], pa.int32()).view(pa.date32()), ["+10000-01-01", "0000-01-01", "-0001-12-31"]),
    (pa.array(["b", None, "a", "b"]).dictionary_encode(), ["b", None, "a", "b"]),
    (pa.DictionaryArray.from_arrays(pa.array([0, 1, None]), pa.array([None, 7])), [None, "7", None]),
    (pa.array([date(2013, 1, 9), None]).dictionary_encode(), ["2013-01-09", None]),
    (pa.nulls(2), [None, None]),
]


@pytest.mark.parametrize(("values", "texts"), TEXTS, ids=lambda v: str(v.type) if isinstance(v, pa.Array) else "")
def test_a_feature_key_is_the_hash_of_slot_and_text(values: pa.Array, texts: list[str | None]) -> None:
    expected = xxhash64([pa.array(["slot"] * len(texts)), pa.array(texts, pa.string())])
    assert feature_keys("slot", values).tolist() == expected.tolist()
    assert feature_keys("slot", values[1:]).tolist() == expected[1:].tolist()


@pytest.mark.parametrize(("values", "texts"), TEXTS, ids=lambda v: str(v.type) if isinstance(v, pa.Array) else "")
def test_an_empty_column_has_no_keys(values: pa.Array, texts: list[str | None]) -> None:
    assert feature_keys("slot", values[:0]).tolist() == []


def test_null_has_the_key_of_its_slot() -> None:
    assert feature_keys("user_id", pa.array([None], pa.string())).tolist() == [slot_seed("user_id")]
    assert slot_seed("user_id") == int(xxhash64([pa.array(["user_id"])])[0])


def test_ready_made_ids_that_are_keys_spread_over_slices_and_come_back() -> None:
    ids = np.concatenate([np.arange(-5000, 5000), np.arange(1, 64) << 57, [np.iinfo(np.int64).min]]).astype(np.int64)
    keys = raw_keys("user_id", pa.array(ids))
    assert raw_ids(keys).view(np.int64).tolist() == ids.tolist()
    assert np.bincount(slices(keys), minlength=NUM_SLICES).max() < 30
    some = pa.array([7, None, 9], pa.int64()).slice(1)
    assert raw_keys("user_id", some).tolist() == [slot_seed("user_id"), *raw_keys("x", pa.array([9]))]
    with pytest.raises(TypeError, match="must be integers"):
        raw_keys("user_id", pa.array(["1"]))


def test_ready_made_ids_are_hashed_as_bigint() -> None:
    ids = pa.array([42, None, -1], pa.int32())
    expected = xxhash64([pa.array(["user_id"] * 3), ids.cast(pa.int64())])
    assert hashed_keys("user_id", ids).tolist() == expected.tolist()
    assert hashed_keys("user_id", ids).view(np.int64)[0] == GOLDEN["'user_id', 42L"]


def test_nulls_and_offsets_of_a_slice_are_its_own() -> None:
    values = pa.array(["a", None, "b", None, "c", "d", None, "e", "f", "g", None])
    whole = xxhash64([values])
    for start in range(len(values)):
        assert xxhash64([values[start:]]).tolist() == whole[start:].tolist()


def test_lists_of_many_rows_chain_each_row_by_itself() -> None:
    lists = [[1, 2, 3], None, [], [4], [None, 5]]
    expected = [int(xxhash64([pa.array([value], pa.list_(pa.int32()))])[0]) for value in lists]
    for kind in (pa.list_(pa.int32()), pa.large_list(pa.int32()), pa.list_view(pa.int32()), pa.large_list_view(pa.int32())):
        assert xxhash64([pa.array(lists, kind)]).tolist() == expected
        assert xxhash64([pa.array(lists, kind)[2:]]).tolist() == expected[2:]


def test_lists_of_fixed_size_hash_as_lists() -> None:
    lists = [[1, 2], None, [None, 3]]
    fixed, free = pa.array(lists, pa.list_(pa.int32(), 2)), pa.array(lists, pa.list_(pa.int32()))
    assert xxhash64([fixed]).tolist() == xxhash64([free]).tolist()
    assert xxhash64([fixed[1:]]).tolist() == xxhash64([free[1:]]).tolist()


def test_timestamps_of_any_unit_are_microseconds() -> None:
    whole = [moment(2013, 1, 1, 5, 15), None]
    expected = xxhash64([pa.array(whole, pa.timestamp("us"))]).tolist()
    for unit in ("s", "ms", "ns"):
        assert xxhash64([pa.array(whole, pa.timestamp(unit))]).tolist() == expected


def test_unsigned_integers_hash_as_the_wider_type_spark_reads_them_as() -> None:
    assert xxhash64([pa.array([7], pa.uint16())]).tolist() == xxhash64([pa.array([7], pa.int32())]).tolist()
    assert xxhash64([pa.array([7], pa.uint32())]).tolist() == xxhash64([pa.array([7], pa.int64())]).tolist()
    assert xxhash64([pa.array([7], pa.uint64())]).tolist() == xxhash64([pa.array([Decimal(7)], pa.decimal128(20, 0))]).tolist()


def test_a_slice_is_the_top_ten_bits() -> None:
    keys = np.array([0, 2**54 - 1, 2**54, 2**64 - 1], np.uint64)
    assert slices(keys).tolist() == [0, 0, 1, 1023]


@pytest.mark.parametrize("values", [pa.array([1.5]), pa.array([Decimal("1.5")]), pa.array([[1]])])
def test_values_without_a_text_of_their_own_are_refused(values: pa.Array) -> None:
    with pytest.raises(TypeError, match="slot 'price' must hold strings, bools, integers or dates"):
        feature_keys("price", values)


def test_what_spark_does_not_hash_is_refused() -> None:
    with pytest.raises(TypeError, match="a hash does not take map"):
        xxhash64([pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int32()))])
    with pytest.raises(ValueError, match=r"lengths \[1, 2\]"):
        xxhash64([pa.array([1]), pa.array([1, 2])])
    with pytest.raises(ValueError, match="one or more columns"):
        xxhash64([])
    with pytest.raises(TypeError, match="must be integers"):
        hashed_keys("user_id", pa.array(["1"]))
