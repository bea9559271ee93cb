"""The columns of requests, and the features that TRANSFORM computes from them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from ...engines.repeats import expanded
from ...engines.row_expressions import row_expressions
from ...errors import ModelError
from ...input.transform import Transform
from ...quoting import quoted
from ..column_types import type_of
from ..inputs import Input


def inputs_of(features: Sequence[Input], transform: Transform | None) -> tuple[Input, ...]:
    """Return the columns that requests have.

    Args:
        features: the columns that are scored.

    Raises:
        ModelError: the manifest has a type that this xpsql does not support.
    """
    if transform is None:
        return tuple(features)
    plain = {column.name.lower(): column for column in features if column.name.lower() not in transform.computed}
    found = []
    for name in transform.needed([column.name for column in features]):
        if name not in transform.types:
            found.append(plain[name.lower()])
            continue
        kind = type_of(transform.types[name])
        if kind is None:
            raise ModelError(f"TRANSFORM reads {name}, whose type {transform.types[name]!r} this xpsql does not support.")
        found.append(Input(name, None, kind))
    return tuple(found)


def features_of(
    features: Sequence[Input], inputs: Sequence[Input], transform: Transform | None
) -> Callable[[pa.Table], pa.Table]:
    """Return a function that makes the scored columns from the columns of requests."""
    if transform is None:
        return lambda table: table
    computed = transform.computed
    expressions = {
        column.name: computed[column.name.lower()].sql if column.name.lower() in computed else quoted(column.name)
        for column in features
    }
    computed_of = row_expressions(expressions, pa.schema([(column.name, column.type) for column in inputs]))
    return lambda table: computed_of(expanded(table))
