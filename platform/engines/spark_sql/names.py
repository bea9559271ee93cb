"""The names Spark gives to result columns that have no alias: `count(1)`, `(a + 1)`.

Source: Spark's org.apache.spark.sql.catalyst.util.toPrettySQL.
"""

from __future__ import annotations

from collections.abc import Collection

from sqlglot import exp

from .dialect import SparkSQL
from .words import EXPLODES, TYPE_NAMES

INFIX = (exp.Binary, exp.In, exp.If)
FORMS: dict[type[exp.Expr], str] = {
    exp.Neg: "(- {this})",
    exp.Not: "(NOT {this})",
    exp.NEQ: "(NOT ({this} = {expression}))",
    exp.NullSafeEQ: "({this} <=> {expression})",
    exp.NullSafeNEQ: "(NOT ({this} <=> {expression}))",
    exp.IntDiv: "({this} div {expression})",
    exp.Between: "between({this}, {low}, {high})",
    exp.Like: "{this} LIKE {expression}",
    exp.ILike: "ilike({this}, {expression})",
    exp.RegexpLike: "RLIKE({this}, {expression})",
    exp.DPipe: "concat({this}, {expression})",
    exp.Filter: "{this} FILTER ({expression})",
}


def name_columns(select: exp.Select, relations: Collection[str]) -> None:
    """Give every unnamed column of a SELECT the name that Spark gives it.

    Args:
        relations: names in lower case that stand before columns; others there are columns, which are structs.
    """
    for item in list(select.expressions):
        if isinstance(item, exp.Column) and not isinstance(item.this, exp.Star):
            item.replace(exp.alias_(item.copy(), item.name, quoted=True))
        elif not isinstance(item, exp.Alias | exp.Aliases | exp.Star | exp.Column) and not makes_rows(item):
            item.replace(exp.alias_(item.copy(), column_name(item, relations), quoted=True))


def makes_rows(item: exp.Expr) -> bool:
    return isinstance(item, exp.Anonymous) and item.name.lower() in EXPLODES


def column_name(item: exp.Expr, relations: Collection[str]) -> str:
    """Return the name of a column without alias: that of the plain column that it is or casts, else its text."""
    core = item.unnest()
    if isinstance(core, exp.Cast):
        core = core.this.unnest()
        if isinstance(core, exp.Column) and path(core, relations) != core.name:  # the field of a struct
            return pretty(item, relations)
    elif isinstance(core, exp.Anonymous) and core.name.lower() in TYPE_NAMES and len(core.expressions) == 1:
        core = core.expressions[0].unnest()
    return path(core, relations) if isinstance(core, exp.Column) else pretty(item, relations)


def path(column: exp.Column, relations: Collection[str]) -> str:
    """Return a column without its relation: `a` of `t.a`, `s.x` of the field of a struct `t.s.x`."""
    first, *rest = (part.name for part in column.parts)
    return ".".join(rest if rest and first.lower() in relations else [first, *rest])


def pretty(item: exp.Expr, relations: Collection[str]) -> str:
    """Return an expression as Spark prints it in a column's name."""
    root = exp.Tuple(expressions=[item.copy()])
    for node in reversed(list(root.expressions[0].walk())):
        printed = plain(node, relations)
        if printed is not node:
            node.replace(printed)
        if isinstance(printed, exp.Paren) and printed.this is None:  # which the node is put into
            printed.set("this", node)
    return str(root.expressions[0].sql(dialect=SparkSQL, normalize_functions=False))


def plain(node: exp.Expr, relations: Collection[str]) -> exp.Expr:
    """Return what a node of an expression, whose parts are done, is printed as; empty parentheses are to be put around it."""
    if isinstance(node, exp.Literal) and node.is_string and not isinstance(node.parent, exp.Interval):
        return exp.Var(this=node.this)
    if isinstance(node, exp.Anonymous) and node.name.lower() == "window":
        return exp.Var(this="window")
    if isinstance(node, exp.Star) and isinstance(node.parent, exp.Anonymous):
        return exp.Literal.number(1)
    if isinstance(node, exp.Column):
        return exp.Var(this=path(node, relations))
    if isinstance(node, exp.Exists):
        return exp.Var(this="exists()")
    if isinstance(node, exp.In) and node.args.get("query"):
        return exp.Paren(this=exp.In(this=node.this, expressions=[exp.Var(this="listquery()")]))
    if isinstance(node, exp.Subquery):
        return exp.Var(this="scalarsubquery()")
    if isinstance(node, exp.Boolean):
        return exp.Var(this=str(node.this).lower())
    if isinstance(node, exp.Paren) and not isinstance(node.this, INFIX):
        inner: exp.Expr = node.this.pop()
        return inner
    if isinstance(node, exp.Case) and node.this is not None:
        return tested(node)
    if isinstance(node, exp.Not) and isinstance(node.this, exp.Is):
        return exp.Var(this=f"({shown(node.this.this)} IS NOT {shown(node.this.expression)})")
    if type(node) in FORMS and not (isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal)):
        parts = {name: shown(part) for name, part in node.args.items() if isinstance(part, exp.Expr)}
        printed = FORMS[type(node)].format_map(parts)
        return exp.Var(this=f"(NOT {printed})" if node.args.get("negate") else printed)
    return exp.Paren() if isinstance(node, INFIX) and not is_bare(node) else node


def is_bare(node: exp.Expr) -> bool:
    """Return whether Spark puts no parentheses of its own around what stands between or after words."""
    negated = isinstance(node, exp.Is) and isinstance(node.parent, exp.Not)
    return negated or isinstance(node, exp.Dot | exp.Bracket) or isinstance(node.parent, exp.Paren | exp.Case)


def tested(case: exp.Case) -> exp.Case:
    """Return CASE a WHEN b as CASE WHEN (a = b)."""
    for branch in case.args["ifs"]:
        branch.set("this", exp.Paren(this=exp.EQ(this=case.this.copy(), expression=branch.this)))
    case.set("this", None)
    return case


def shown(part: exp.Expr) -> str:
    return part.sql(dialect=SparkSQL, normalize_functions=False)
