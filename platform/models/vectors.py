"""Vectors of items and of queries, for the nearest-neighbour index of another program, in full or as deltas."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from ...warehouse.version import Version
from ..engines.base import internal_name
from ..errors import StatementError
from ..input.columns import columns_from
from ..input.slots import matched
from ..quoting import quoted
from ..scoring.catalogue import columns_of_slots
from ..scoring.prediction import Prediction
from ..training.recipe import algorithm_of

if TYPE_CHECKING:
    from ..engines.base import Engine
    from ..progress import Reporter


@contextmanager
def vectors(
    version: Version, engine: Engine, rows: str, side: str, base: str | None, folder: Path, reporter: Reporter
) -> Iterator[str]:
    """Yield the query of the vectors of some rows: the rows' first column, their key, and `vector`.

    With a base, an earlier export as a table: only vectors that differ from the base's or are new, and tombstones of keys that
    have no row any more, by a column `deleted`:

        base without the keys of the delta, and the delta's rows that are not deleted = full export

    Args:
        rows: the query of the rows.
        side: ITEMS or QUERY, whose slots it returns.
        folder: empty, for what is written on the way; with an engine of tasks, all machines share it.

    Raises:
        StatementError: the model has no vectors of queries and items, a column is missing or of another kind, a key is NULL or
            occurs twice, or the base is not an export.
    """
    key, name, query = _completed(version, engine, rows, side)
    prediction = Prediction(version, engine, query, None)
    if base is not None:
        _check_base(engine.schema(f"SELECT * FROM {base}"), base, key)
    made = internal_name("vectors")
    try:
        found = prediction.write(frozenset({key.lower(), f"predicted_{name}"}), folder, reporter)
        if isinstance(found, pa.Table):
            engine.register_rows(made, found)
        else:
            engine.register(made, found)
        _check_keys(engine, made, key, side)
        new = f"SELECT {quoted(key)}, CAST(predicted_{name} AS ARRAY<FLOAT>) AS vector FROM {made}"
        yield new if base is None else _delta(new, base, quoted(key))
    finally:
        engine.execute(f"DROP VIEW IF EXISTS {made}")


def _completed(version: Version, engine: Engine, rows: str, side: str) -> tuple[str, str, str]:
    """Return the key's column, the output that is the vector, and the query with NULL for the slots of the other side."""
    manifest = version.manifest
    match = algorithm_of(manifest).match
    if match is None:
        raise StatementError(
            f"EXPORT MODEL ... VECTORS writes vectors of queries and items, and {manifest.algorithm.name} has none of its own. "
            "EXPORT MODEL name TO writes vectors of features; or use a model of two_tower."
        )
    columns, schema = columns_from(manifest), engine.schema(rows)
    own, others = (match.item_slots, match.query_slots) if side == "ITEMS" else (match.query_slots, match.item_slots)
    matched(columns, schema, columns_of_slots(columns, own))
    there = {name.lower() for name in schema.names}
    nulls = [
        f"CAST(NULL AS {slot.type}) AS {quoted(slot.column)}"
        for slot in columns.slots
        if slot.name in others and slot.column.lower() not in there
    ]
    return schema.names[0], match.item if side == "ITEMS" else match.query, f"SELECT {', '.join(['*', *nulls])} FROM ({rows})"


def _check_keys(engine: Engine, view: str, key: str, side: str) -> None:
    """Refuse rows with duplicate keys."""
    column = quoted(key)
    twice = engine.execute(
        f"SELECT {column} AS value, COUNT(*) AS times FROM {view} GROUP BY {column} "
        f"HAVING COUNT(*) > 1 OR {column} IS NULL LIMIT 1"
    )
    if twice is not None and twice.num_rows:
        value, times = twice["value"][0].as_py(), twice["times"][0].as_py()
        problem = "which is NULL" if value is None else f"{value!r} {times} times"
        raise StatementError(
            f"VECTORS OF {side} has a {key} {problem}. Its first column identifies rows: SELECT DISTINCT, or "
            f"WHERE {key} IS NOT NULL."
        )


def _check_base(schema: pa.Schema, base: str, key: str) -> None:
    """Refuse a table that is no earlier export of the vectors of such keys."""
    lacks = {key.lower(), "vector"} - {name.lower() for name in schema.names}
    if lacks or not pa.types.is_list(schema.field(schema.names[[name.lower() for name in schema.names].index("vector")]).type):
        raise StatementError(
            f"DELTA FROM TABLE reads an earlier export of these vectors, with the columns {key} and vector; {base} has "
            f"{', '.join(schema.names)}. Name the table of one."
        )


def _delta(new: str, base: str, key: str) -> str:
    changed = (
        f"SELECT n.{key}, n.vector, FALSE AS deleted FROM ({new}) AS n LEFT JOIN {base} AS o ON n.{key} = o.{key} "
        f"WHERE o.{key} IS NULL OR NOT (n.vector <=> o.vector)"
    )
    gone = (
        f"SELECT o.{key}, CAST(NULL AS ARRAY<FLOAT>) AS vector, TRUE AS deleted FROM {base} AS o LEFT JOIN ({new}) AS n "
        f"ON n.{key} = o.{key} WHERE n.{key} IS NULL"
    )
    return f"{changed}\nUNION ALL\n{gone}"
