"""Values of JSON, or of Arrow as Python has them, as row programs take them; those of other types are doubted."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime
from typing import Any

import numpy as np
import pyarrow as pa

from ...row_programs.base import EXACT, DoubtError, LacksError
from ...spark_types import TIMESTAMP, type_words
from .. import casts

Reader = Callable[[Any], Any]


def reader_of(kind: pa.DataType) -> Reader:
    """Return a function that reads values of a column.

    Raises:
        LacksError: there is none for its type.
    """
    if pa.types.is_integer(kind) and pa.types.is_signed_integer(kind):
        return whole(kind.bit_width)
    if (pa.types.is_list(kind) or pa.types.is_map(kind)) and kind not in READERS:
        return nested
    if kind not in READERS:
        raise LacksError(f"columns of type {type_words(kind)}")
    return READERS[kind]


def whole(bits: int) -> Reader:
    most = 1 << bits - 1

    def read(value: Any) -> int | None:
        if value is None:
            return None
        if type(value) is not int or not -most <= value < most:
            raise DoubtError
        return value

    return read


def real(value: Any) -> float | None:
    if value is None or type(value) is float:
        return value
    if type(value) is int and -EXACT < value < EXACT:
        return float(value)
    raise DoubtError


def short_real(value: Any) -> float | None:
    found = real(value)
    if found is None:
        return None
    with np.errstate(over="raise"):
        try:
            return float(np.float32(found))
        except FloatingPointError as error:
            raise DoubtError from error


def truth(value: Any) -> bool | None:
    if value is None or type(value) is bool:
        return value
    raise DoubtError


def text(value: Any) -> str | None:
    if value is None or type(value) is str:
        return value
    raise DoubtError


def day(value: Any) -> date | None:
    if value is None:
        return None
    try:
        return casts.date(value)
    except casts.MismatchError as error:
        raise DoubtError from error


def moment(value: Any) -> datetime | None:
    if value is None:
        return None
    if type(value) is str and casts.USUAL_TIME.match(value):
        try:
            return datetime.fromisoformat(value)
        except ValueError as error:
            raise DoubtError from error
    try:
        return casts.timestamp(value).astimezone(UTC).replace(tzinfo=None)
    except (casts.MismatchError, OverflowError) as error:
        raise DoubtError from error


def texts(value: Any) -> list[str | None] | None:
    if value is None:
        return None
    if type(value) is not list or any(one is not None and type(one) is not str for one in value):
        raise DoubtError
    return value


def nested(value: Any) -> Any:
    if value is None or type(value) in (list, dict):
        return value
    raise DoubtError


READERS: dict[pa.DataType, Reader] = {
    pa.bool_(): truth,
    pa.float32(): short_real,
    pa.float64(): real,
    pa.string(): text,
    pa.date32(): day,
    TIMESTAMP: moment,
    pa.list_(pa.string()): texts,
}
