"""The types of expressions inside a query, as DuckDB binds them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sqlglot import exp

from ...spark_sql.lists import is_packed
from .macros import make_macros

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection, DuckDBPyRelation
    from duckdb.sqltypes import DuckDBPyType

NO_TYPE = '"NULL"'  # DuckDB's name of the type of NULL, and of the elements of array()
WRITTEN = "written"  # the text of a translated WITH query, in its meta


class Typer:
    """Answers the type of a translated node by binding it, alone, over the FROM of the SELECT around it.

    Without a connection, no type is known.
    """

    def __init__(self, connection: DuckDBPyConnection | None) -> None:
        self.connection = connection
        self.known: dict[str, DuckDBPyType | None] = {}

    def type_of(self, node: exp.Expr) -> DuckDBPyType | None:
        """Return a node's type, or None where it is not known (a correlated subquery's outer columns, say)."""
        if self.connection is None:
            return None
        if (literal := like(node)) is not None:
            return self.bound(f"SELECT {literal}")
        constant = node.find(exp.Identifier, exp.Query) is None
        select = None if constant else node.find_ancestor(exp.Select)
        sql = probe([closed(node)], select)
        if sql not in self.known and isinstance(node, exp.Column) and select is not None:
            self.bind_columns(select)
        found = self.bound(sql)
        if found is not None or select is None:
            return found
        named = [item for item in select.expressions if isinstance(item, exp.Alias) and not inside(node, item)]
        return self.bound(probe([*named, closed(node)], select)) if named else None

    def bind_columns(self, select: exp.Select) -> None:
        """Learn the types of all columns that a select names, at once: to bind a query over files takes milliseconds."""
        named = [column for column in select.find_all(exp.Column) if column.parent_select is select and not column.is_star]
        columns = {probe([column], select): column for column in named}
        new = {sql: column for sql, column in columns.items() if sql not in self.known}
        relation = self.relation(probe([*new.values()], select))
        if relation is not None:
            self.known.update(zip(new, relation.types, strict=True))

    def columns_of(self, query: exp.Expr) -> list[tuple[str, DuckDBPyType]] | None:
        """Return the names and types of a translated query's columns, None where they are not known."""
        if self.connection is None:
            return None
        relation = self.relation(f"{scopes(query.parent)} SELECT * FROM ({query.unnest().sql('duckdb')})")
        return None if relation is None else list(zip(relation.columns, relation.types, strict=True))

    def bound(self, sql: str) -> DuckDBPyType | None:
        """Return the type of a query's last column, None where it cannot be bound."""
        if sql not in self.known:
            relation = self.relation(sql)
            self.known[sql] = relation.types[-1] if relation is not None else None
        return self.known[sql]

    def relation(self, sql: str) -> DuckDBPyRelation | None:
        """Bind a query; return None where it cannot be."""
        import duckdb

        assert self.connection is not None  # the conditions of those who ask
        try:
            make_macros(sql, self.connection)
            return self.connection.sql(sql)
        except duckdb.Error:
            return None  # the whole query is bound later, and says what is wrong


def like(node: exp.Expr) -> str | None:
    """Return one literal for all that have a literal's type, so that a list of a million is bound once; None for others."""
    if is_packed(node):
        return "1"
    if not isinstance(node, exp.Literal):
        return None
    if node.is_string:
        return "''"
    return "1" if len(node.name) < len(str(2**31 - 1)) and node.name.isdecimal() else None


def probe(items: Sequence[exp.Expr], select: exp.Select | None) -> str:
    """Return a query of the items over the FROM of a select."""
    listed = ", ".join(item.sql("duckdb") for item in items)
    if select is None:
        return f"SELECT {listed}"
    source = " ".join(part.sql("duckdb") for part in sources(select))
    return f"{scopes(select)} SELECT {listed} {source}"


def sources(select: exp.Select) -> list[exp.Expr]:
    """Return the FROM and the joins of a select."""
    start = select.args.get("from_")
    return [*([start] if start else []), *(select.args.get("joins") or [])]


def scopes(start: exp.Expr | None) -> str:
    """Return the WITH clauses that a node sees, outermost first, as one."""
    tables: list[str] = []
    node = start
    while node is not None:
        clause = node.args.get("with_")
        if clause is not None:
            others = [table for table in clause.expressions if not inside(start, table)]
            tables[:0] = [table.meta.get(WRITTEN) or table.sql("duckdb") for table in others]
        node = node.parent
    return f"WITH {', '.join(tables)}" if tables else ""


def inside(node: exp.Expr | None, ancestor: exp.Expr) -> bool:
    """Return whether a node is a part of another, or it."""
    parent = node
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
        kind = types[part.name].replace(NO_TYPE, "INT")
        return exp.cast(exp.null(), exp.DataType.build(kind, dialect="duckdb"))
    return part
