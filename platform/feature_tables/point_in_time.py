"""Feature tables in SQL: the rows that a version is made of, and rows of a query beside the features of their keys."""

from __future__ import annotations

from ..quoting import quoted
from .kept_features import ROWS, FeaturesDefinition, FeaturesVersion

GIVEN, DATA, FOUND, UNTIL = "xpsql_given", "xpsql_data", "xpsql_found", "xpsql_until"


def ordered(definition: FeaturesDefinition, view: str) -> str:
    """Return the query of a version's rows in order; those without key, or without the time of a table that has one, are left
    out."""
    names = [definition.key, *([] if definition.time is None else [definition.time])]
    columns = ", ".join(map(quoted, (*names, *definition.values)))
    there = " AND ".join(f"{quoted(name)} IS NOT NULL" for name in names)
    return f"SELECT {columns} FROM {view} WHERE {there} ORDER BY {', '.join(map(quoted, names))}"


def doubles(definition: FeaturesDefinition, view: str) -> str:
    """Return the query of a key, and time, that has several rows, as texts, and of their number."""
    names = [definition.key, *([] if definition.time is None else [definition.time])]
    listed = ", ".join(f"CAST({quoted(name)} AS STRING) AS {quoted(name)}" for name in names)
    there = " AND ".join(f"{quoted(name)} IS NOT NULL" for name in names)
    grouped = ", ".join(map(quoted, names))
    return (
        f"SELECT {listed}, xpsql_n FROM (SELECT {grouped}, count(*) AS xpsql_n FROM {view} WHERE {there} GROUP BY {grouped} "
        f"HAVING count(*) > 1 ORDER BY {grouped} LIMIT 1)"
    )


def beside(query: str, version: FeaturesVersion, key: str, time: str | None) -> str:
    """Return a query with its columns and the features of its keys: NULL of a key that has none.

    Args:
        key: its column with the key.
        time: its column that says when features must have been known, strictly before; None of a table without time.
    """
    definition, rows = version.definition, f"SELECT * FROM parquet.{quoted(str((version.folder / ROWS).absolute()))}"
    own = quoted(definition.key)
    condition = f"{FOUND}.{own} = {DATA}.{quoted(key)}"
    if definition.time is not None and time is not None:
        since, at = quoted(definition.time), f"{DATA}.{quoted(time)}"
        rows = f"SELECT *, lead({since}) OVER (PARTITION BY {own} ORDER BY {since}) AS {UNTIL} FROM ({rows}) AS {GIVEN}"
        condition += f" AND {FOUND}.{since} < {at} AND ({FOUND}.{UNTIL} IS NULL OR {FOUND}.{UNTIL} >= {at})"
    features = "".join(f", {FOUND}.{quoted(name)} AS {quoted(name)}" for name in definition.values)
    return f"SELECT {DATA}.*{features} FROM ({query}\n) AS {DATA} LEFT JOIN ({rows}) AS {FOUND} ON {condition}"
