"""The edges that a query returns, by the vertex that they leave, with vertices in order of their keys."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...algorithms.graphs.limbs import NODE
from ..engines.base import Engine
from ..errors import DataError, StatementError, suggestion
from ..input.numbers import floats, shown
from ..input.roles import WEIGHT
from ..input.slot_types import require_number
from ..ps import _native
from ..ps.keys import feature_keys
from ..spark_types import type_words

Ends = NDArray[np.int32]


class EdgeColumns(NamedTuple):
    """The columns of edges: both ends, and the weight, None where all weigh the same."""

    source: str
    target: str
    weight: str | None

    def check(self, schema: pa.Schema, function: str) -> EdgeColumns:
        """Return them as a query names them.

        Raises:
            StatementError: it lacks one, or ends have different types.
        """
        own = {name.lower(): name for name in schema.names}
        for word, column in zip(("SOURCE", "TARGET", "WEIGHT"), self, strict=True):
            if column is not None and column.lower() not in own:
                raise StatementError(
                    f"{word} of {function} names {column!r}, which the query does not return.{suggestion(column, own.values())}"
                )
        source, target, weight = (None if column is None else own[column.lower()] for column in self)
        assert source is not None
        assert target is not None
        if schema.field(source).type != schema.field(target).type:
            raise StatementError(
                f"{function} gives vertices of both ends in one column: {source} is {type_words(schema.field(source).type)}, "
                f"and {target} is {type_words(schema.field(target).type)}. CAST one of them."
            )
        if weight is not None:
            require_number(schema.field(weight), WEIGHT)
        return EdgeColumns(source, target, weight)


class EdgesOut(NamedTuple):
    """The edges of a graph, by the vertex that they leave.

    Attributes:
        names: of vertices, in order of their keys.
        keys: uint64[n].
        offsets: int64[n + 1]; others: int32[edges], ascending within a vertex.
        cumulative: float64[edges], running sums of the weights of each vertex's edges; None where all weigh the same.
        dropped: rows with a NULL end.
    """

    names: pa.Array
    keys: NDArray[np.uint64]
    offsets: NDArray[np.int64]
    others: Ends
    cumulative: NDArray[np.float64] | None
    dropped: int


def edges_out(engine: Engine, query: str, columns: EdgeColumns, both: bool) -> EdgesOut:
    """Read the edges of a query.

    Args:
        both: edges lead both ways.

    Raises:
        DataError: a weight is no number from 0.
        StatementError: the ends of edges are values of a type that names no vertices.
    """
    numbering, names, known, dropped = _native.Numbering(), [], 0, 0
    parts: list[tuple[Ends, Ends, NDArray[np.float32] | None]] = []
    for batch in engine.reader(query):
        source, target = batch.column(columns.source), batch.column(columns.target)
        weights = None if columns.weight is None else floats(batch.column(columns.weight))
        there = np.asarray(source.is_valid()) & np.asarray(target.is_valid())
        dropped += len(there) - int(np.count_nonzero(there))
        kept = pa.array(there)
        source, target = source.filter(kept), target.filter(kept)
        weights = None if weights is None else checked(weights[there], columns.weight or "")
        ends = pa.concat_arrays([source, target])
        try:
            numbers = numbering.number(feature_keys(NODE, ends))
        except TypeError as error:
            raise StatementError(f"The ends of edges must be texts, integers, dates or booleans: {error}.") from error
        distinct, first = np.unique(numbers, return_index=True)
        names.append(ends.take(pa.array(first[distinct >= known])))
        known = max(known, int(distinct[-1]) + 1 if len(distinct) else 0)
        own, other = np.split(numbers, 2)
        parts.append((own, other, weights))
        if both:
            parts.append((other, own, weights))
    if not known:
        raise DataError(f"No row is an edge: {columns.source} and {columns.target} are never both there.")
    return ordered(numbering.keys(), pa.concat_arrays(names), parts, dropped)


def ordered(
    keys: NDArray[np.uint64], names: pa.Array, parts: list[tuple[Ends, Ends, NDArray[np.float32] | None]], dropped: int
) -> EdgesOut:
    """Return edges with vertices in order of their keys, and those of a vertex in order of where they lead and their weights:
    nothing depends on the order of rows."""
    order = np.argsort(keys)
    place = np.empty(len(order), np.int32)
    place[order] = np.arange(len(order), dtype=np.int32)
    own, other = (place[np.concatenate([part[at] for part in parts])] for at in (0, 1))
    weights = None if parts[0][2] is None else np.concatenate([part[2] for part in parts if part[2] is not None])
    pair = own.astype(np.int64) * len(keys) + other
    by = np.argsort(pair, kind="stable") if weights is None else np.lexsort((weights, pair))
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.bincount(own, minlength=len(keys)))])
    return EdgesOut(
        names.take(pa.array(order)),
        keys[order],
        offsets,
        other[by],
        None if weights is None else running(weights[by], offsets),
        dropped,
    )


def running(weights: NDArray[np.float32], offsets: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the running sums of each vertex's weights."""
    whole = np.concatenate([np.zeros(1), np.cumsum(weights, dtype=np.float64)])
    found: NDArray[np.float64] = whole[1:] - np.repeat(whole[offsets[:-1]], np.diff(offsets))
    return found


def checked(weights: NDArray[np.float32], name: str) -> NDArray[np.float32]:
    """Return weights that are numbers from 0.

    Raises:
        DataError: one is not.
    """
    wrong = ~(weights >= 0) | np.isinf(weights)
    if wrong.any():
        raise DataError(
            f"WEIGHT {name} of an edge must be a number from 0; one is {shown(weights[wrong][0])}. Correct it in the query, or "
            "leave such edges out."
        )
    return weights
