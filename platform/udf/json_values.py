"""Values of JSON in the types of columns, as Spark has them: one rule for files, streams, from_json and requests.

Objects whose values DuckDB would make something else of are found by a scan of their bytes, and written again so that it does
not: `settled` is the entry.

Source: Spark's org.apache.spark.sql.catalyst.json.JacksonParser.
"""

from __future__ import annotations

import datetime
import decimal
import functools
import json
import math
import re
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from .base import Computed

Shape = Any  # a type's name in DuckDB, [shape] of an array, [key, value] of a map, {name: shape} of a struct
WHOLE, FRACTION, TEXT, TEXT_WITH_FRACTION, BOOLEAN, ODD_TIME, NESTED, NESTED_FRACTION, NESTED_TEXT, BEYOND_INT = (
    1 << bit for bit in range(10)
)
INTEGERS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "INTEGER": 32, "BIGINT": 64}
REALS = frozenset(("FLOAT", "REAL", "DOUBLE"))
TEXTS = frozenset(("VARCHAR", "TEXT", "STRING"))
TIMES = frozenset(("DATE", "TIMESTAMPTZ", "TIMESTAMP WITH TIME ZONE", "TIMESTAMP"))
INFINITE = {"NaN": "NaN", "Infinity": "Infinity", "+Infinity": "Infinity", "-Infinity": "-Infinity", "+INF": "Infinity",
            "INF": "Infinity", "-INF": "-Infinity"}  # fmt: skip
NUMBER = re.compile(r"\s*[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,6})?\s*", re.ASCII)
INTEGER = re.compile(r"\s*[+-]?[0-9]{1,40}\s*", re.ASCII)
TRUE, FALSE = ("t", "true", "y", "yes", "1"), ("f", "false", "n", "no", "0")
PLAIN_FROM, PLAIN_BELOW = 1e-3, 1e7


class MisfitError(Exception):
    """A value that does not become its type."""


def double_text(value: float) -> str:
    """Return a DOUBLE as Spark casts it to a string: 1.0, 1.5E10, NaN."""
    if math.isnan(value) or math.isinf(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if value == 0 or PLAIN_FROM <= abs(value) < PLAIN_BELOW:
        return repr(value)
    sign, digits, exponent = decimal.Decimal(repr(value)).normalize().as_tuple()
    tail = "".join(map(str, digits[1:])) or "0"
    return f"{'-' if sign else ''}{digits[0]}.{tail}E{len(digits) - 1 + int(exponent)}"


class NumberText(float):
    """A number with a fraction or an exponent, and how it was written."""

    written: str

    def __new__(cls, written: str) -> NumberText:
        made = super().__new__(cls, written)
        made.written = written
        return made


def settled(texts: pa.Array, fields: dict[str, Shape], strict: bool) -> pa.Array:
    """Return JSON objects, string[n], with those written again that DuckDB would misread in the types of some fields.

    Args:
        fields: the types of fields, by name.
        strict: whether values of another type are NULL, as in from_json and files; otherwise they become it as by a CAST,
            and what does not is left as it is.
    """
    from ..ps import _native
    from ..ps.keys import text_buffers, with_offsets

    if not len(texts):
        return texts
    texts = with_offsets(texts)
    found = np.flatnonzero(_native.json_doubts(*text_buffers(texts), *masks_of(fields, strict)))
    if not len(found):
        return texts
    made = texts.to_pylist()
    for place in found.tolist():
        if made[place] is not None:
            made[place] = rewritten(made[place], fields, strict)
    return pa.array(made, pa.string())


def has_doubts(lines: bytes, fields: dict[str, Shape]) -> bool:
    """Return whether lines have a JSON object that `settled` would write again, read strictly."""
    from ..ps import _native

    data = np.frombuffer(lines, np.uint8)
    ends = np.flatnonzero(data == ord("\n")) + 1
    offsets = np.concatenate([[0], ends, [len(data)]]).astype(np.int64)
    return bool(_native.json_doubts(offsets, data, *masks_of(fields, True)).any())


def masks_of(fields: dict[str, Shape], strict: bool) -> tuple[np.ndarray, np.ndarray]:
    return doubts(tuple((name, json.dumps(shape)) for name, shape in fields.items()), strict)


@functools.lru_cache(maxsize=64)
def doubts(fields: tuple[tuple[str, str], ...], strict: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return the hashes of fields' names, uint64[k], and the kinds of tokens that are in doubt in them, uint16[k]."""
    from ..ps.keys import slot_seed

    masks = [mask_of(json.loads(shape), strict) for _, shape in fields]
    return np.array([slot_seed(name) for name, _ in fields], np.uint64), np.array(masks, np.uint16)


def mask_of(shape: Shape, strict: bool) -> int:
    """Return the kinds of tokens of which DuckDB makes something else than Spark, in a type."""
    if not isinstance(shape, str):
        element = shape[0] if isinstance(shape, list) and len(shape) == 1 else None
        inside = 0 if is_a(element, REALS) else NESTED_FRACTION if is_a(element, TEXTS) or is_a(element, INTEGERS) else NESTED
        texts = NESTED_TEXT if not is_a(element, TEXTS) else 0
        return inside | (WHOLE | FRACTION | TEXT | BOOLEAN | texts if strict else 0)
    if shape in TEXTS:
        return FRACTION | NESTED_FRACTION
    others = (BOOLEAN | NESTED | TEXT) if strict else 0
    if shape in INTEGERS:
        return FRACTION | TEXT_WITH_FRACTION | others | (BEYOND_INT if INTEGERS[shape] < 64 else 0)
    if shape in REALS:
        return others
    if shape in TIMES:
        return WHOLE | FRACTION | ODD_TIME | (others & ~TEXT)
    if shape == "BOOLEAN":
        return TEXT | ((WHOLE | FRACTION | NESTED) if strict else 0)
    return FRACTION | TEXT | others


def is_a(shape: Shape, names: Collection[str]) -> bool:
    return isinstance(shape, str) and shape in names


def rewritten(text: str, fields: dict[str, Shape], strict: bool) -> str:
    """Return a JSON object with its fields in forms that DuckDB reads as Spark does; what is no object stays as it is."""
    try:
        found = json.loads(text, parse_float=NumberText, parse_constant=NumberText)
    except (ValueError, RecursionError):
        return text
    if not isinstance(found, dict):
        return text
    return json.dumps(of_struct(found, fields, strict), ensure_ascii=False)


def of_struct(found: dict[str, Any], fields: dict[str, Shape], strict: bool) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for name, shape in fields.items():
        value = found.get(name)
        if value is None:
            continue
        try:
            made[name] = converted(value, shape, strict)
        except MisfitError:
            if not strict:
                made[name] = value  # whoever reads it finds that it does not fit
    return made


def converted(value: Any, shape: Shape, strict: bool) -> Any:
    """Return a value that is not null as JSON that DuckDB reads as a value of a type.

    Raises:
        MisfitError: it does not become the type.
    """
    if isinstance(shape, dict):
        if not isinstance(value, dict):
            raise MisfitError
        return of_struct(value, shape, strict)
    if isinstance(shape, list):
        return of_map(value, shape[1], strict) if len(shape) == 2 else of_list(value, shape[0], strict)
    family = shape.partition("(")[0]
    convert: Callable[[Any, str, bool], Any] = KINDS.get(family, of_text)
    return convert(value, shape, strict)


def of_list(value: Any, element: Shape, strict: bool) -> list[Any]:
    if not isinstance(value, list):
        raise MisfitError
    return [None if one is None else part(one, element, strict) for one in value]


def of_map(value: Any, item: Shape, strict: bool) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise MisfitError
    return {key: None if one is None else part(one, item, strict) for key, one in value.items()}


def part(value: Any, shape: Shape, strict: bool) -> Any:
    """Return a value inside of another; one that does not fit is NULL by a CAST, and makes the whole NULL in strict reading."""
    try:
        return converted(value, shape, strict)
    except MisfitError:
        if strict:
            raise
        return None


def of_integer(value: Any, shape: str, strict: bool) -> int:
    limit = 1 << INTEGERS[shape] - 1
    if isinstance(value, bool) or not isinstance(value, int):
        value = None if strict else as_integer(value)
    if value is None or not -limit <= value < limit:
        raise MisfitError
    return int(value)


def as_integer(value: Any) -> int | None:
    """Return a value as CAST makes it an integer: without its fraction."""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, float):
        return int(value) if math.isfinite(value) else None
    return int(value) if isinstance(value, str) and INTEGER.fullmatch(value) else None


def of_real(value: Any, shape: str, strict: bool) -> float | int | str:
    if isinstance(value, str):
        if value in INFINITE:
            return INFINITE[value]
        if strict or not NUMBER.fullmatch(value):
            raise MisfitError
        return float(value)
    if isinstance(value, bool) and not strict:
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise MisfitError
    return value if isinstance(value, int) or math.isfinite(value) else double_text(value)


def of_decimal(value: Any, shape: str, strict: bool) -> str:
    precision, scale = map(int, shape[shape.index("(") + 1 : -1].split(","))
    text = value.written if isinstance(value, NumberText) else value.replace(",", "") if isinstance(value, str) else str(value)
    if isinstance(value, bool | list | dict) or not NUMBER.fullmatch(text) or (strict and text.strip() != text):
        raise MisfitError
    context = decimal.Context(prec=80, rounding=decimal.ROUND_HALF_UP)
    try:
        found = context.create_decimal(text.strip()).quantize(decimal.Decimal(1).scaleb(-scale), context=context)
    except decimal.InvalidOperation as error:
        raise MisfitError from error
    if len(found.as_tuple().digits) > precision:
        raise MisfitError
    return f"{found:f}"


def of_boolean(value: Any, shape: str, strict: bool) -> bool:
    if isinstance(value, bool):
        return value
    if not strict and isinstance(value, int | float) and not math.isnan(value):
        return value != 0
    if not strict and isinstance(value, str) and (word := value.strip().lower()) in (*TRUE, *FALSE):
        return word in TRUE
    raise MisfitError


def of_date(value: Any, shape: str, strict: bool) -> str:
    from .text_times import days_of

    days = days_of(value) if isinstance(value, str) else None
    if days is None and strict and isinstance(value, str) and value.isdecimal():
        days = int(value)
    return moment(days, lambda count: datetime.timedelta(days=count))[:10]


def of_timestamp(value: Any, shape: str, strict: bool) -> str:
    from .text_times import micros_of

    micros = None
    if isinstance(value, str):
        micros = micros_of(value)
    elif isinstance(value, float) and not strict and math.isfinite(value):
        micros = int(value * 1_000_000)
    elif isinstance(value, int) and not isinstance(value, bool):
        micros = value * 1_000_000
    return moment(micros, lambda count: datetime.timedelta(microseconds=count)) + "+00"


def moment(count: int | None, span: Callable[[int], datetime.timedelta]) -> str:
    """Return a time so long after 1970 as text.

    Raises:
        MisfitError: there is none, or DuckDB's text has no such year.
    """
    if count is None:
        raise MisfitError
    try:
        return (datetime.datetime(1970, 1, 1) + span(count)).isoformat(" ")
    except OverflowError as error:
        raise MisfitError from error


def of_text(value: Any, shape: str, strict: bool) -> str:
    return value if isinstance(value, str) else written(value)


def written(value: Any) -> str:
    """Return a value as Spark writes the text of a column: numbers as CAST does, objects and arrays as JSON without spaces."""
    if isinstance(value, bool) or value is None:
        return json.dumps(value)
    if isinstance(value, float):
        return double_text(value) if math.isfinite(value) else f'"{double_text(value)}"'
    if isinstance(value, list):
        return f"[{','.join(map(written, value))}]"
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(key, ensure_ascii=False)}:{written(one)}" for key, one in value.items()) + "}"
    return json.dumps(value, ensure_ascii=False)


KINDS: dict[str, Callable[[Any, str, bool], Any]] = {
    **dict.fromkeys(INTEGERS, of_integer),
    **dict.fromkeys(REALS, of_real),
    **dict.fromkeys(("TIMESTAMPTZ", "TIMESTAMP WITH TIME ZONE", "TIMESTAMP"), of_timestamp),
    "DECIMAL": of_decimal,
    "BOOLEAN": of_boolean,
    "DATE": of_date,
}


def shape_of(kind: pa.DataType) -> Shape:
    """Return the shape of a type of Arrow's."""
    from ..spark_types import duckdb_type

    if pa.types.is_struct(kind):
        return {field.name: shape_of(field.type) for field in kind}
    if pa.types.is_map(kind):
        return [shape_of(kind.key_type), shape_of(kind.item_type)]
    return [shape_of(kind.value_type)] if pa.types.is_list(kind) else duckdb_type(kind)


def settled_columns(columns: Sequence[pa.Array]) -> pa.Array:
    """Return JSON objects settled strictly: (text, the shapes of fields as JSON), string[n]."""
    texts, shape = columns
    if not len(texts):
        return texts.cast(pa.string())
    return settled(texts, json.loads(shape[0].as_py()), True)


json_settled = Computed("xpsql_json_settled", settled_columns, pa.string())
