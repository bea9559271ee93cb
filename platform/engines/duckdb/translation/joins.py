"""Joins on columns of one name: what USING, NATURAL and `*` over them mean."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlglot import exp

from ....errors import StatementError
from .macros import make_macros
from .typer import Typer, scopes, sources


def join_rule(node: exp.Join, typer: Typer) -> exp.Expr:
    """LEFT SEMI and LEFT ANTI lose their LEFT; NATURAL is USING all columns that both sides have."""
    if node.kind in ("SEMI", "ANTI"):
        node.set("side", None)
    if node.method == "NATURAL":
        shared = common(node, typer)
        node.set("method", None)
        node.set("using" if shared else "on", [exp.to_identifier(name, quoted=True) for name in shared] or exp.true())
    return node


def common(join: exp.Join, typer: Typer) -> list[str]:
    """Return the columns that both sides of a join have, in the order of the left one's.

    Raises:
        StatementError: their columns are not known.
    """
    select = join.parent_select
    assert select is not None  # only a SELECT has joins
    parts = sources(select)
    before = parts[: next(k for k, part in enumerate(parts) if part is join)]
    left = columns([exp.Star()], before, select, typer)
    right = columns([exp.Star()], [exp.From(this=join.this.copy())], select, typer)
    if left is None or right is None:
        raise StatementError("The columns that NATURAL JOIN joins on are not known here. Name them: JOIN ... USING (a, b).")
    names = {name.lower(): name for name in (*(key.name for key in keys(before)), *left)}
    return [name for lower, name in names.items() if lower in map(str.lower, right)]


def keys(parts: Iterable[exp.Expr]) -> list[exp.Expr]:
    """Return the columns that joins have in USING, the last join's first: as `*` begins in Spark."""
    found: dict[str, exp.Expr] = {}
    for part in reversed(list(parts)):
        for key in part.args.get("using") or []:
            found.setdefault(key.name.lower(), key)
    return list(found.values())


def keys_first(select: exp.Select, typer: Typer) -> None:
    """Let `*` and `t.*` begin with the columns of USING; DuckDB leaves them where the table has them."""
    parts = sources(select)
    found = keys(parts)
    if found:
        items = [(item, begun(item, found, select, typer)) for item in select.expressions]
        for star, made in items:
            if len(made) > 1:
                check(columns([star], parts, select, typer), columns(made, parts, select, typer))
        select.set("expressions", [part for _, made in items for part in made])


def begun(item: exp.Expr, found: Sequence[exp.Expr], select: exp.Select, typer: Typer) -> list[exp.Expr]:
    """Return `a, * EXCLUDE (a)` for `*` and `t.a, t.* EXCLUDE (a)` for `t.*`, any other item as it is."""
    if isinstance(item, exp.Star):
        return starred(item, found, None)
    if isinstance(item, exp.Column) and isinstance(item.this, exp.Star):
        return starred(item.this, shared(item, select, typer), item.args["table"])
    return [item]


def shared(star: exp.Column, select: exp.Select, typer: Typer) -> list[exp.Expr]:
    """Return the columns of `t.*` that joins of t have in USING."""
    parts = sources(select)
    own = {name.lower() for name in columns([star], parts, select, typer) or []}
    place = next((k for k, part in enumerate(parts) if part.this.alias_or_name.lower() == star.table.lower()), len(parts))
    return [key for key in keys(parts[place:]) if key.name.lower() in own]


def starred(star: exp.Star, found: Sequence[exp.Expr], table: exp.Identifier | None) -> list[exp.Expr]:
    hidden = star.args.get("except_") or []
    kept = [key for key in found if key.name.lower() not in [column.name.lower() for column in hidden]]
    shown = [exp.column(key.copy(), table=table and table.copy()) for key in kept]
    rest = exp.Star(**{**star.args, "except_": [*hidden, *(exp.column(key.copy()) for key in kept)]})
    return [*shown, exp.Column(this=rest, table=table.copy()) if table is not None else rest]


def check(whole: list[str] | None, made: list[str] | None) -> None:
    """Require that no other table has a column of USING, which EXCLUDE would leave out too.

    Raises:
        StatementError: one has.
    """
    if whole is not None and made is not None and len(whole) != len(made):
        raise StatementError("* has several columns of one name here, one of them in USING. Name the columns instead.")


def columns(items: Iterable[exp.Expr], parts: Iterable[exp.Expr], select: exp.Select, typer: Typer) -> list[str] | None:
    """Return the names of columns of `SELECT items parts` in place of a select; None where they are not known."""
    import duckdb

    if typer.connection is None:
        return None
    listed = ", ".join(item.sql("duckdb") for item in items)
    sql = f"{scopes(select)} SELECT {listed} {' '.join(part.sql('duckdb') for part in parts)}"
    try:
        make_macros(sql, typer.connection)
        return typer.connection.sql(sql).columns
    except duckdb.Error:
        return None
