"""Values of vertices as a model says them, by vertex."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

import xpsql

Edge = tuple[Any, ...]


def edges_table(edges: Sequence[Edge]) -> pa.Table:
    """Return edges as rows: src, dst, and w where they have weights."""
    columns = list(zip(*edges, strict=True)) or [[], []]
    kinds = [pa.int64() if all(isinstance(v, int | None) for v in column) else None for column in columns]
    return pa.table(
        [pa.array(column, kind) for column, kind in zip(columns, kinds, strict=True)], names=["src", "dst", "w"][: len(columns)]
    )


def train(session: xpsql.Session, using: str, edges: Sequence[Edge], more: str = "", model: str = "m") -> None:
    """Train a model of edges."""
    session.register("edges", edges_table(edges))
    weight = " WEIGHT w" if edges and len(edges[0]) == 3 else ""
    session.sql(f"TRAIN OR REPLACE MODEL {model} USING {using} SOURCE src TARGET dst{weight} {more} AS SELECT * FROM edges")


def values(session: xpsql.Session, vertices: Iterable[Any], model: str = "m") -> dict[Any, Any]:
    """Return what ML.PREDICT says of vertices."""
    asked = pa.table({"node": pa.array(list(vertices))})
    session.register("asked", asked)
    found = session.sql(f"SELECT * FROM ML.PREDICT(MODEL {model}, TABLE asked)").arrow()
    return dict(zip(found.column(0).to_pylist(), found.column(1).to_pylist(), strict=True))


def weights(session: xpsql.Session, model: str = "m") -> list[dict[str, Any]]:
    """Return the rows of ML.WEIGHTS, by key."""
    return session.sql(f"SELECT * FROM ML.WEIGHTS(MODEL {model}) ORDER BY key").arrow().to_pylist()
