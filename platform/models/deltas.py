"""What changed between two versions of a model: rows to replace, and tombstones of rows that went.

    base export without the keys of the delta, and the delta's rows that are not deleted = full export

Rows are compared as they are stored, so any two versions of a model have a delta, whoever made them: a training, its expiry, or
SHRINK MODEL. A delta has the columns of ML.WEIGHTS but utility, information and offered, which follow from others and, the last
two, from a base rate that moves with every example; and `deleted`, true for a tombstone, which has slot and key alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...warehouse.version import Version
from .weights import Relation, weights

if TYPE_CHECKING:
    from ..engines.base import Engine

DERIVED = ("utility", "information", "offered")
KEYS = ("table", "slot", "key")


def export_delta(version: Version, base: Version, engine: Engine, table: str, replace: bool, format: str) -> int:
    """Write what leads from the export of one version to that of another into a warehouse table; return its rows.

    Raises:
        StatementError: the table exists and is not to be replaced.
    """
    with weights(version, engine) as new, weights(base, engine) as old:
        return engine.write_table(table, delta(new, old), replace, format)


def delta(new: Relation, old: Relation) -> str:
    """Return the query of a delta."""
    return "\nUNION ALL\n".join(part for name in new.views for part in _parts(new, old, name))


def _kept(relation: Relation, table: str) -> list[str]:
    return [name for name in relation.columns[table] if name not in DERIVED]


def _parts(new: Relation, old: Relation, table: str) -> tuple[str, str]:
    """Return the queries of a table's changed rows and of its tombstones."""
    names = _kept(new, table)
    ours, theirs = (f"({relation.select_table(table, names)})" for relation in (new, old))
    compared = [name for name in names if name != "key"]
    differs = " OR ".join(f"NOT (n.`{name}` <=> o.`{name}`)" for name in compared)
    listed = ", ".join(f"n.`{name}`" for name in names)
    empty = ", ".join(f"o.`{name}`" if name in KEYS else f"n.`{name}`" for name in names)
    changed = f"SELECT {listed}, FALSE AS deleted FROM {ours} AS n LEFT JOIN {theirs} AS o ON n.`key` = o.`key`"
    gone = f"SELECT {empty}, TRUE AS deleted FROM {theirs} AS o LEFT JOIN {ours} AS n ON n.`key` = o.`key`"
    return f"{changed} WHERE o.`key` IS NULL OR {differs}", f"{gone} WHERE n.`key` IS NULL"
