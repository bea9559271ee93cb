"""The names Spark gives to result columns that have no alias: `count(1)`, `(a + 1)`.

Source: Spark's org.apache.spark.sql.catalyst.util.toPrettySQL.
"""

from __future__ import annotations

from sqlglot import exp

from .dialect import SparkSQL
from .generators import EXPLODES


def name_columns(select: exp.Select) -> None:
    """Give every unnamed column of a SELECT the name that Spark gives it."""
    for item in list(select.expressions):
        if isinstance(item, exp.Column) and not isinstance(item.this, exp.Star):
            item.replace(exp.alias_(item.copy(), item.name, quoted=True))
        elif not isinstance(item, exp.Alias | exp.Aliases | exp.Star | exp.Column) and not makes_rows(item):
            item.replace(exp.alias_(item.copy(), pretty(item), quoted=True))


def makes_rows(item: exp.Expr) -> bool:
    return isinstance(item, exp.Anonymous) and item.name.lower() in EXPLODES


def pretty(item: exp.Expr) -> str:
    """Return an expression as Spark prints it in a column's name."""
    return item.copy().transform(plain).sql(dialect=SparkSQL, normalize_functions=False)


def plain(node: exp.Expr) -> exp.Expr:
    if isinstance(node, exp.Literal) and node.is_string and not isinstance(node.parent, exp.Interval):
        return exp.Var(this=node.this)
    if isinstance(node, exp.Star) and isinstance(node.parent, exp.Anonymous):
        return exp.Literal.number(1)
    if isinstance(node, exp.Column):
        return exp.Var(this=node.name)
    if isinstance(node, exp.Binary) and not isinstance(node, exp.Dot | exp.Bracket) and not isinstance(node.parent, exp.Paren):
        return exp.Paren(this=node)
    return node
