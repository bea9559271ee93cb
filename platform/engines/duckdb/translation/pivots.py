"""PIVOT as Spark runs it: what has no rows is NULL, counts too."""

from __future__ import annotations

from collections.abc import Collection

from sqlglot import exp

from ...spark_sql.names import pretty
from .calls import call, case, cast, not_null, number
from .typer import Typer, scopes

ATOMS = frozenset(
    ("tinyint", "smallint", "integer", "bigint", "hugeint", "float", "double", "decimal", "boolean")
)  # of these Spark keeps a place for each value, NULL at first


def prepare_pivot(pivot: exp.Pivot, relations: Collection[str]) -> None:
    """Give aggregates the names that Spark gives them: that of the value where there is one, else that and their own.

    count_if becomes count, which `pivot_rule` knows.
    """
    if pivot.unpivot:
        return
    several = len(pivot.expressions) > 1
    for item in list(pivot.expressions):
        if several and not isinstance(item, exp.Alias):
            item.replace(exp.alias_(item.copy(), pretty(item, relations), quoted=True))
        elif not several and isinstance(item, exp.Alias):
            item.replace(item.this)
    for item in pivot.expressions:
        count = item.unalias()
        if isinstance(count, exp.Anonymous) and count.name.lower() == "count_if":
            count.replace(call("count", case(count.expressions[0], number(1), None)))


def pivot_rule(pivot: exp.Expr, typer: Typer) -> exp.Expr:
    """Make counts NULL where no row has the value, as Spark does where all aggregates are numbers or booleans.

    Source: Spark's org.apache.spark.sql.catalyst.expressions.aggregate.PivotFirst.
    """
    items = [] if pivot.args.get("unpivot") else pivot.expressions
    kinds = [typer.bound(f"{scopes(pivot)} SELECT {item.sql('duckdb')} FROM {unpivoted(pivot)}") for item in items]
    if all(kind is None or kind.id in ATOMS for kind in kinds):
        for item in items:
            count = item.unalias()
            if isinstance(count, exp.Anonymous) and count.name == "count":
                count.replace(counted(count.expressions[0]))
    return pivot


def counted(value: exp.Expr) -> exp.Expr:
    """Return count(value), or NULL of no rows: DuckDB takes one aggregate for each column."""
    if isinstance(value, exp.Distinct):
        return cast(call("list_unique", call("list", *value.expressions)), "BIGINT")
    present: exp.Expr = exp.true() if isinstance(value, exp.Star) else not_null(value)
    return call("sum", case(present, number(1), number(0)))


def unpivoted(pivot: exp.Expr) -> str:
    """Return the relation that a PIVOT turns."""
    assert pivot.parent is not None
    relation = pivot.parent.copy()
    relation.set("pivots", None)
    return str(relation.sql("duckdb"))
