"""Deltas between two versions of a model: rows to replace, and tombstones of removed rows.

    base export without the keys of the delta, and the delta's rows that are not deleted = full export

Rows are compared as they are stored, so any two versions of a model have a delta, whoever made them: a training, its expiry, or
SHRINK MODEL. A delta has the columns of ML.WEIGHTS but utility, information and offered, which follow from others and, the last
two, from a base rate that moves with every example; and `deleted`, true for a tombstone, which has slot and key alone.

Where a resident training made both versions, the changes between them are stored, and the base is read only where rows were
removed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

from ...warehouse.chains.links import ChainLink, lineage
from ...warehouse.version import Version
from ..engines.base import internal_name
from ..errors import ModelError
from .changes import keys_table, register_changes, temporary
from .weights import Relation, relation_of, weights

if TYPE_CHECKING:
    from ..engines.base import Engine

DERIVED = ("utility", "information", "offered")
KEYS = ("table", "slot", "key")
STORED_KEY = "xpsql_stored_key"


def export_delta(version: Version, base: Version, engine: Engine, table: str, replace: bool, format: str) -> int:
    """Write what leads from the export of one version to that of another into a warehouse table; return its rows.

    Raises:
        StatementError: the table exists and is not to be replaced.
    """
    with ExitStack() as stack:
        links = between(version, base)
        if links is None:
            query = delta(stack.enter_context(weights(version, engine)), stack.enter_context(weights(base, engine)))
        else:
            query = written_down(version, base, links, engine, stack)
        return engine.write_table(table, query, replace, format)


def between(version: Version, base: Version) -> list[ChainLink] | None:
    """Return the versions after one, up to another one, oldest first, which stored what they changed; None where one did not,
    or is gone."""
    links: list[ChainLink] = []
    with contextlib.suppress(ModelError):
        for number, folder, manifest in lineage(version.folder, version.manifest):
            if folder == base.folder:
                return links[::-1]
            links.append(ChainLink(number, folder, manifest.files or ()))
    return None


def written_down(version: Version, base: Version, links: Sequence[ChainLink], engine: Engine, stack: ExitStack) -> str:
    """Return the query of a delta from the changes that versions between two have stored."""
    tables = version.manifest.tables
    views = {table.name: internal_name("changed") for table in tables}
    new, parts = relation_of(version, views), []
    for table in tables:
        gone = register_changes(version, links, table, engine, views[table.name], stack)[1]
        names = _kept(new, table.name)
        ours = f"({new.select_table(table.name, names)})"
        parts.append(f"SELECT {', '.join(f'n.`{name}`' for name in names)}, FALSE AS deleted FROM {ours} AS n")
        if len(gone):
            keys = temporary(engine, internal_name("gone"), stack)
            engine.register_rows(keys, keys_table(gone))
            theirs = stack.enter_context(weights(base, engine)).select_table(table.name, names, {STORED_KEY: "`key`"})
            went = f"(SELECT o.* FROM ({theirs}) AS o LEFT SEMI JOIN {keys} AS k ON o.{STORED_KEY} = k.`key`)"
            parts.append(_gone(names, ours, went))
    return "\nUNION ALL\n".join(parts)


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
    changed = f"SELECT {listed}, FALSE AS deleted FROM {ours} AS n LEFT JOIN {theirs} AS o ON n.`key` = o.`key`"
    return f"{changed} WHERE o.`key` IS NULL OR {differs}", _gone(names, ours, theirs)


def _gone(names: Sequence[str], ours: str, theirs: str) -> str:
    """Return the query of tombstones: of rows of one relation that the other one has not."""
    empty = ", ".join(f"o.`{name}`" if name in KEYS else f"n.`{name}`" for name in names)
    both = f"{theirs} AS o LEFT JOIN {ours} AS n ON n.`key` = o.`key`"
    return f"SELECT {empty}, TRUE AS deleted FROM {both} WHERE n.`key` IS NULL"
