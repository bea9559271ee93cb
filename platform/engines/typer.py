"""The types of expressions inside a query, as DuckDB binds them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from .macros import make

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from duckdb.sqltypes import DuckDBPyType


class Typer:
    """Answers the type of a translated node by binding it, alone, over the FROM of the SELECT around it.

    Without a connection, no type is known.
    """

    def __init__(self, connection: DuckDBPyConnection | None) -> None:
        self.connection = connection
        self.known: dict[str, DuckDBPyType | None] = {}

    def type_of(self, node: exp.Expr) -> DuckDBPyType | None:
        """Return a node's type, or None where it cannot be told (a correlated subquery's outer columns, say)."""
        if self.connection is None:
            return None
        select = node.find_ancestor(exp.Select)
        found = self.bound(probe(node, select, ()))
        if found is not None or select is None:
            return found
        named = tuple(item for item in select.expressions if isinstance(item, exp.Alias) and not inside(node, item))
        return self.bound(probe(node, select, named)) if named else None

    def bound(self, sql: str) -> DuckDBPyType | None:
        """Return the type of a query's last column, None where it cannot be bound."""
        if sql not in self.known:
            self.known[sql] = self.last_type(sql)
        return self.known[sql]

    def last_type(self, sql: str) -> DuckDBPyType | None:
        import duckdb

        assert self.connection is not None  # type_of's condition
        try:
            make(sql, self.connection)
            return self.connection.sql(sql).types[-1]
        except duckdb.Error:
            return None  # the whole query is bound later, and says what is wrong


def probe(node: exp.Expr, select: exp.Select | None, named: tuple[exp.Expr, ...]) -> str:
    """Return a query whose last column is the node."""
    items = ", ".join(item.sql("duckdb") for item in (*named, closed(node)))
    if select is None:
        return f"SELECT {items}"
    source = " ".join(part.sql("duckdb") for part in sources(select))
    return f"{scopes(select)} SELECT {items} {source}"


def sources(select: exp.Select) -> list[exp.Expr]:
    """Return the FROM and the joins of a select."""
    start = select.args.get("from_")
    return [*([start] if start else []), *(select.args.get("joins") or [])]


def scopes(select: exp.Select) -> str:
    """Return the WITH clauses that the select sees, outermost first, as one."""
    tables: list[str] = []
    node: exp.Expr | None = select
    while node is not None:
        clause = node.args.get("with_")
        if clause is not None:
            tables[:0] = [table.sql("duckdb") for table in clause.expressions if not inside(select, table)]
        node = node.parent
    return f"WITH {', '.join(tables)}" if tables else ""


def inside(node: exp.Expr, ancestor: exp.Expr) -> bool:
    """Tell whether a node is a part of another, or it."""
    parent: exp.Expr | None = node
    while parent is not None and parent is not ancestor:
        parent = parent.parent
    return parent is ancestor


def closed(node: exp.Expr) -> exp.Expr:
    """Return the node with the parameters of the lambdas around it replaced by NULLs of their types."""
    types: dict[str, str] = {}
    parent = node.parent
    while parent is not None:
        if isinstance(parent, exp.Lambda):
            types = {**parent.meta.get("types", {}), **types}
        parent = parent.parent
    if not types:
        return node
    return node.copy().transform(lambda part: null_of(part, types))


def null_of(part: exp.Expr, types: dict[str, str]) -> exp.Expr:
    """Return a lambda's parameter as a NULL of its type, everything else as it is."""
    if isinstance(part, exp.Identifier) and part.name in types and not isinstance(part.parent, exp.Column | exp.Alias):
        return exp.cast(exp.null(), exp.DataType.build(types[part.name], dialect="duckdb"))
    return part
