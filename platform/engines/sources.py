"""What a query reads: the names of its relations, the versions and columns that it asks for, and how many files they are."""

from __future__ import annotations

from collections.abc import Iterable

from sqlglot import exp

from ...warehouse.entries import SourceEntry
from ..errors import StatementError
from ..objects import stamp
from .as_of import AsOf
from .base import INTERNAL
from .spark_sql.dialect import position_of


def source_of(kind: str, name: str, files: Iterable[str], snapshot: str = "") -> SourceEntry:
    """Return the entry of a relation that is files.

    Raises:
        OSError: one is gone.
    """
    import xxhash

    found = [(path, *stamp(path)) for path in sorted(files)]
    lines = "".join(f"{path}\0{size}\0{modified}\n" for path, size, modified in found)
    digest = xxhash.xxh3_128_hexdigest(lines.encode()) if found else ""
    return SourceEntry(kind, name, snapshot, len(found), sum(size for _, size, _ in found), digest)


def relations_in(query: exp.Expr) -> list[exp.Table]:
    """Return the nodes that name relations from outside of a query, each name once, without those that xpsql makes for it."""
    named = {written(node): node for node in names_in(query) if not node.name.lower().startswith(INTERNAL)}
    return list(named.values())


def written(node: exp.Table) -> str:
    """Return the name of a relation in Spark's SQL, a path in backticks."""
    parts = [part for part in (node.catalog, node.db, node.name) if part]
    name = ".".join(part if part.isidentifier() else f"`{part}`" for part in parts)
    version = node.args.get("version")
    return name if version is None else f"{name} {version.sql('spark')}"


def names_in(query: exp.Expr) -> list[exp.Table]:
    """Return the nodes that name relations from outside of a query."""
    return [node for node in query.find_all(exp.Table) if isinstance(node.this, exp.Identifier) and not is_local(node)]


def as_of_in(node: exp.Table) -> AsOf | None:
    """Return what a reference says of the version that it reads; None where it says nothing.

    Raises:
        StatementError: it is no literal.
    """
    version = node.args.get("version")
    if version is None:
        return None
    value = version.expression
    value = value.this if isinstance(value, exp.Cast) else value  # DATE'2026-11-01'
    if not isinstance(value, exp.Literal):
        raise StatementError(f"{version.name} AS OF takes a number or a text here.", position_of(node.this))
    return AsOf(version.name.upper(), value.this)


def named_in(node: exp.Expr) -> frozenset[str] | None:
    """Return all names in the query that a node is of, in lower case, among which are its columns; None where it takes all."""
    root = node.root()
    if root.find(exp.Star) or any(join.args.get("method") == "NATURAL" for join in root.find_all(exp.Join)):
        return None
    return frozenset(name.name.lower() for name in root.find_all(exp.Identifier))


def is_local(table: exp.Table) -> bool:
    """Return whether a name is defined by the query itself, in a WITH clause that the reference sees."""
    if table.db:
        return False
    node: exp.Expr = table
    while node.parent is not None:
        parent = node.parent
        scope = parent if isinstance(parent, exp.With) else parent.args.get("with_")
        if scope is not None and node is not scope:
            names = [cte.alias.lower() for cte in visible(scope, node)]
            if table.name.lower() in names:
                return True
        node = parent
    return False


def visible(scope: exp.With, node: exp.Expr) -> list[exp.Expr]:
    """Return the tables of a WITH clause that a child of it, or of its query, sees: a table sees those before it."""
    tables: list[exp.Expr] = scope.expressions
    if node.parent is not scope:
        return tables
    place = next(i for i, table in enumerate(tables) if table is node)
    return tables[: place + 1] if scope.args.get("recursive") else tables[:place]
