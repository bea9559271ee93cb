"""Requests of JSON: `{"instances": [{...}, ...]}`, and `{"context": {...}, "candidates": [{...}, ...]}`."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ..engines.repeats import one_value
from ..spark_types import type_words
from .inputs import MISSING, Input, by_lower_name
from .refusal import RequestError, RequestLimits

FORMS = '{"instances": [{column: value, ...}, ...]} or {"context": {column: value, ...}, "candidates": [{...}, ...]}'


def parsed(body: bytes, limits: RequestLimits) -> Any:
    """Return the JSON of a body.

    Raises:
        RequestError: it is not JSON, or nested too deep.
    """
    limits.check_depth(body)
    try:
        return DECODER.decode(body.decode())
    except (ValueError, RecursionError) as error:
        raise RequestError(400, f"The body is not JSON: {error}.") from error


def refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON value; send it as a string")


DECODER = json.JSONDecoder(parse_constant=refuse_constant)
"""Made once: json.loads would make one for each body."""


def split(request: Any, limits: RequestLimits) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return the rows of a request, and what all of them have in common.

    Raises:
        RequestError: it has another form.
    """
    if not isinstance(request, dict):
        raise RequestError(400, f"Expected an object, {FORMS}.")
    if "instances" in request:
        if found := [name for name in ("context", "candidates") if name in request]:
            raise RequestError(400, f"{found[0]} does not go with instances, whose rows have all columns. Expected {FORMS}.")
        return rows_of(request, "instances", limits), {}
    if "candidates" in request:
        context = request.get("context", {})
        if not isinstance(context, dict):
            raise RequestError(400, f"context must be an object of columns. Expected {FORMS}.")
        check_columns(context, "context")
        return rows_of(request, "candidates", limits), context
    raise RequestError(400, f"Expected {FORMS}.")


def rows_of(request: Mapping[str, Any], name: str, limits: RequestLimits) -> list[dict[str, Any]]:
    rows = request[name]
    if not isinstance(rows, list):
        raise RequestError(400, f"{name} must be an array of objects. Expected {FORMS}.")
    limits.check_rows(len(rows))
    for number, row in enumerate(rows):
        if not isinstance(row, dict):
            raise RequestError(400, f"Row {number} of {name} must be an object of columns, such as {{'ad': 'a7'}}.")
        if number == 0 or len(row) != len(rows[0]):  # rows of as many columns are of one form: to look at all takes longer
            check_columns(row, f"Row {number} of {name}")
    return rows


def check_columns(row: Mapping[str, Any], of: str) -> None:
    """Refuse a column that is there in two cases, of which only one could be read."""
    if len(names := by_lower_name(row)) < len(row):
        twice = next(name for name in row if names[name.lower()] != name)
        raise RequestError(
            400, f"{of} has the columns {twice} and {names[twice.lower()]}, which are one: case means nothing. Leave one out."
        )


def of_rows(rows: Sequence[Mapping[str, Any]], context: Mapping[str, Any], inputs: Sequence[Input]) -> pa.Table:
    """Return rows, and what all of them have in common, as the columns of a version.

    Raises:
        RequestError: a column is missing, or a value does not fit its column's type.
    """
    shared, first = by_lower_name(context), by_lower_name(rows[0]) if rows else {}
    arrays = []
    for column in inputs:
        lower = column.name.lower()
        if lower in shared:
            if lower in first:
                raise RequestError(400, f"The column {column.name} is in the context and in candidates; leave it out of one.")
            arrays.append(repeated(column, context[shared[lower]], len(rows)))
            continue
        name = first.get(lower, column.name)
        arrays.append(column.array([row.get(name, MISSING) for row in rows]))
    return pa.table(arrays, names=[column.name for column in inputs])


def repeated(column: Input, value: Any, count: int) -> pa.Array:
    """Return one value for so many rows, which is kept, and encoded, once.

    Raises:
        RequestError: it does not fit the column's type.
    """
    try:
        return one_value(column.array([value]), count)
    except RequestError as error:
        raise RequestError(error.status, f"In the context: {error}") from error


def answer(predictions: Mapping[str, pa.Array]) -> dict[str, Any]:
    """Return predictions as `:predict` answers: a number or vector each, or an object of them where there are several."""
    lists = {name: json_values(column) for name, column in predictions.items()}
    if len(lists) == 1:
        return {"predictions": next(iter(lists.values()))}
    return {"predictions": [dict(zip(lists, row, strict=True)) for row in zip(*lists.values(), strict=True)]}


def json_values(column: pa.Array) -> list[Any]:
    """Return predictions as JSON values: null where they are not numbers; probabilities of classes as an object."""
    if pa.types.is_map(column.type):
        return [{str(key): value for key, value in row} for row in column.to_pylist()]
    if not pa.types.is_floating(column.type) and not pa.types.is_fixed_size_list(column.type):
        return list(column.to_pylist())
    if pa.types.is_fixed_size_list(column.type):
        size, values = column.type.list_size, json_values(column.flatten())
        return [values[at : at + size] for at in range(0, len(values), size)]
    values = column.to_numpy(zero_copy_only=False)
    if np.isfinite(values).all():
        return list(values.tolist())
    return [value if math.isfinite(value) else None for value in values.tolist()]


def described(inputs: Sequence[Input]) -> dict[str, str]:
    """Return the columns of a version and their types in SQL's words."""
    return {column.name: type_words(column.type) for column in inputs}
