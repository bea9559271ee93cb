"""Every expression that row programs have is computed by the embedded engine, too, on made rows: both give the same bits."""

import math
import struct
from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.cases import costly_after_first, lengthy
from xpsql.platform.engines.row_expressions import row_expressions
from xpsql.platform.row_programs.base import DoubtError, LacksError
from xpsql.platform.row_programs.compiling import compiled
from xpsql.platform.spark_types import TIMESTAMP

EXTREMES = [0.0, -0.0, math.nan, math.inf, -math.inf, 5e-324, -5e-324, 1.7976931348623157e308, 0.1, 0.5, -0.5, 1.5, 2.5, 1e7,
            9999999.999999998, 1e-3, 9.99e-4, 1e15, 1e16, 123456789.125, 2.0**52 + 0.5, 2.0**53, 9.3e18, -9.3e18]  # fmt: skip
WORDS = ["", " ", "a|b", "\\", "\\N", "|", " lead", "tail ", "Fast Red Car", "ÄÖÜ straße", "Ελλάς", "İstanbul", "日本 語",
         "😀x", "a,b", "7", "-7", " 7", "1e3", ".5", "nan", "Infinity", "true", "2013-01-31", "2013-02-30",
         "2013-01-31 10:05:00", "0\x00z", "2013-01-31T23:59:59", "٣"]  # fmt: skip
MOMENTS = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.just(UTC))
COLUMNS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "d": (pa.float64(), st.one_of(st.sampled_from(EXTREMES), st.floats(width=64), st.floats(-1000, 1000))),
    "e": (pa.float64(), st.one_of(st.sampled_from(EXTREMES), st.floats(-100, 100))),
    "r": (pa.float32(), st.floats(width=32)),
    "i": (pa.int32(), st.one_of(st.integers(-(2**31), 2**31 - 1), st.integers(-9, 9))),
    "l": (pa.int64(), st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(-9, 9))),
    "h": (pa.int16(), st.integers(-(2**15), 2**15 - 1)),
    "c": (pa.int8(), st.integers(-128, 127)),
    "b": (pa.bool_(), st.booleans()),
    "s": (pa.string(), st.one_of(st.sampled_from(WORDS), st.text(max_size=8))),
    "t": (pa.string(), st.one_of(st.sampled_from(WORDS), st.text("ab |\\,", max_size=8))),
    "day": (pa.date32(), st.dates(date(1, 1, 1), date(9999, 12, 31))),
    "ts": (TIMESTAMP, st.one_of(MOMENTS, MOMENTS.map(lambda t: t.replace(microsecond=999_999)))),
    "words": (pa.list_(pa.string()), st.lists(st.one_of(st.none(), st.sampled_from(WORDS)), max_size=4)),
}
SCHEMA = pa.schema([(name, kind) for name, (kind, _) in COLUMNS.items()])
GROUPS = {
    "arithmetic": """
        d + e; d - e; d * e; d / e; d % e; -d; i + i; i + l; l * l; h * c; i - 7; l % 7; i % -3; l div 7; i div l;
        pmod(i, 7); pmod(l, -5); mod(i, 5); d * i; d / l; i / h; d * 1.5; CAST(i * 0.1 AS DOUBLE); CAST(i * 1.25 - 0.5
        AS DOUBLE); CAST(h + 0.25 AS DOUBLE); d + 1; -i; -l; -c; abs(i); abs(d); abs(l); r * d; r + i; (d - (47.3D)) /
        (17.35974309545421D); s * 2; t + i; d - 2.5; (h * 2) / 3; -(1.5) * i = -3; c + 1; c + h
    """,
    "numbers": """
        ln(d); log(d); log10(d); log2(d); log1p(d); sqrt(d); exp(e); floor(d); ceil(d); round(d); round(d, 2); log(i);
        sqrt(l); log1p(i); isnan(d); floor(e); ceil(e); round(e, 3); log1p(e); ln(e); sqrt(e)
    """,
    "conditions": """
        d < e; d <= e; d > e; d >= e; d = e; d <> e; d <=> e; i < l; i = d; l > d; i > 2.5; d > 2.5; h >= 1.25; s < t; s
        = t; s <=> t; b = true; b AND i > 0; b OR i > 0; NOT b; s IS NULL; s IS NOT NULL; i BETWEEN -5 AND 5; d BETWEEN
        e AND 10; i IN (1, 2, 3); i NOT IN (1, NULL); s IN ('a|b', t); d IN (0, 1.5, 2); day < DATE '2000-01-01'; ts >=
        day; ts < TIMESTAMP '2000-01-01 00:00:00'; i = s; b AND NULL; NULL OR b; i < 3 AND d > 0 OR s = 'x'
    """,
    "choices": """
        CASE WHEN i > 0 THEN 'p' WHEN i < 0 THEN 'n' ELSE 'z' END; CASE i WHEN 1 THEN 2 WHEN 2 THEN 3.5D END; CASE WHEN
        b THEN i ELSE d END; IF(d > e, d, e); IF(b, s, NULL); coalesce(d, e, 0); coalesce(s, t, 'none'); nvl(i, -1);
        ifnull(s, 'x'); nullif(i, 1); nullif(d, 0); nvl2(s, i, l); least(d, e); greatest(d, e, 0); least(i, l, 5);
        greatest(s, t); clip(d, 0, 10); clip(i, -5, 5); clip(d, e, 3); CASE s WHEN 'a|b' THEN 1 WHEN '' THEN 2 ELSE 0
        END; coalesce(d, 1.5); IF(i > 0, 1 / i, 0.5D); least(ts, day); equal_null(d, e)
    """,
    "casts": """
        CAST(d AS STRING); CAST(i AS STRING); CAST(b AS STRING); CAST(day AS STRING); CAST(ts AS STRING); CAST(d AS
        INT); CAST(d AS BIGINT); CAST(l AS INT); CAST(l AS SMALLINT); CAST(i AS TINYINT); CAST(i AS DOUBLE); CAST(l AS
        DOUBLE); CAST(s AS INT); CAST(s AS DOUBLE); CAST(t AS BIGINT); CAST(s AS BOOLEAN); CAST(s AS DATE); CAST(s AS
        TIMESTAMP); CAST(b AS INT); CAST(b AS DOUBLE); CAST(i AS BOOLEAN); CAST(ts AS DATE); CAST(day AS TIMESTAMP);
        CAST(r AS DOUBLE); int(d); string(l); double(s); CAST(ts AS BIGINT); CAST(1.75 AS INT); CAST(CAST(d AS STRING)
        AS DOUBLE); TRY_CAST(s AS INT); TRY_CAST(s AS DOUBLE); TRY_CAST(d AS INT)
    """,
    "texts": """
        lower(s); upper(s); trim(s); ltrim(s); rtrim(s); length(s); concat(s, '-', t); s || i; concat(s, d);
        concat_ws('|', s, t, i); substring(s, 1, 2); substr(s, 2); substring(s, 0, 3); left(s, 2); right(s, 3); left(t,
        1); replace(s, 'a', 'xy'); replace(t, '|', ''); startswith(s, t); endswith(s, t); contains(s, t);
        trim(lower(t)); length(d); lower(i); char_length(t); substring(s, 2, -1)
    """,
    "times": """
        hour(ts); minute(ts); second(ts); year(ts); month(ts); day(ts); dayofmonth(day); quarter(day); dayofweek(ts);
        weekday(day); dayofyear(ts); weekofyear(day); extract(hour FROM ts); extract(dow FROM day); to_date(ts);
        date(ts); datediff(ts, day); unix_timestamp(ts); date_add(day, 7); date_sub(day, c); hour(day); to_date(s);
        date_part('month', ts); to_timestamp(day); datediff(day, DATE '2013-01-01'); hour(s)
    """,
    "features": """
        bucketize(d, array((21.0D), (44.0D), (67.0D))); bucketize(i, array(5, 10)); bucketize(d, array(0.5, 2));
        bucketize(d, array(3D, 1D, NULL)); cross(s, t); cross(s, i, d, b); cross(ts, day); hash_bucket(s, 100);
        hash_bucket(l, 7); ngrams(split(lower(s), ' '), 1, 2); ngrams(words, 1, 3); ngrams(words, 2, 2); split(t, ',');
        split(t, '[|]'); split(s, ' '); size(words); array(s, t, 'x'); bucketize(h, array((2.0D)))
    """,
}
EXPRESSIONS = {name: [one.strip() for one in text.split(";")] for name, text in GROUPS.items()}


@pytest.fixture(scope="module", params=EXPRESSIONS)
def both(request):
    """The expressions of a group: as an engine computes them, and as programs."""
    written = {f"x{number}": sql for number, sql in enumerate(EXPRESSIONS[request.param])}
    types = {name: kind for name, (kind, _) in COLUMNS.items()}
    programs = {name: compiled(sql, types).compute for name, sql in written.items()}
    return written, programs, {name: row_expressions({name: sql}, SCHEMA) for name, sql in written.items()}


@lengthy
@costly_after_first
@given(data=st.data())
@settings(max_examples=6, phases=(Phase.generate,))
def test_programs_give_the_bits_of_the_engine_or_doubt(both, data):
    written, programs, engines = both
    row = st.fixed_dictionaries({name: st.one_of(st.none(), values) for name, (_, values) in COLUMNS.items()})
    rows = data.draw(st.lists(row, min_size=40, max_size=60))
    unequal = []
    for name, program in programs.items():
        kept, found = [], []
        for one in rows:
            try:
                found.append(bits(program(values_of(one))))
            except DoubtError:
                continue
            kept.append(one)
        if kept:
            answer = engines[name](pa.Table.from_pylist(kept, SCHEMA))
            expected = [bits(value) for value in answer.column(name).to_pylist()]
            unequal += [(written[name], *one) for one in zip(kept, found, expected, strict=True) if one[1] != one[2]][:1]
    assert not unequal


@pytest.mark.parametrize("group", EXPRESSIONS)
def test_usual_rows_are_computed_without_doubt(group):
    row = values_of({"d": 20.25, "e": 3.25, "r": 0.5, "i": 3, "l": 5, "h": 2, "c": 1, "b": True, "s": "Fast Red Car", "t": "1",
                     "day": date(2013, 1, 31), "ts": datetime(2013, 1, 31, 10, 5, 7), "words": ["a", "b"]})  # fmt: skip
    types = {name: kind for name, (kind, _) in COLUMNS.items()}
    doubts = {"i = s", "s * 2", "to_date(s)", "hour(s)"} | {
        sql for sql in EXPRESSIONS["casts"] if "(s " in sql or sql == "double(s)"
    }
    for sql in set(EXPRESSIONS[group]) - doubts:
        compiled(sql, types).compute(row)


@pytest.mark.parametrize(
    "sql", ["rand()", "regexp_replace(s, 'a', 'b')", "r + r", "i / 0.5", "words[0]", "unknown", "split(s, '.')", "x.y"]
)
def test_what_no_program_computes_is_named(sql):
    with pytest.raises(LacksError, match=r"\w"):
        compiled(sql, {name: kind for name, (kind, _) in COLUMNS.items()})


def values_of(row: dict[str, Any]) -> list[Any]:
    return [value.replace(tzinfo=None) if isinstance(value, datetime) else value for value in map(row.__getitem__, COLUMNS)]


def bits(value: Any) -> Any:
    """Return a value in a form whose equality is that of bits; all NaNs are one."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else struct.pack(">d", value)
    if isinstance(value, datetime):
        return value.replace(tzinfo=None)
    return (type(value).__name__, value) if isinstance(value, bool | int) else value
