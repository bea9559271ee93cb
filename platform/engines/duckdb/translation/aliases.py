"""ORDER BY of expressions over aliases: a name is an alias first in Spark, in DuckDB a column."""

from __future__ import annotations

from sqlglot import exp

from ...spark_sql.words import EXPLODES, VARYING

ALONE = VARYING | EXPLODES


def expand_order(select: exp.Select) -> None:
    """Put what aliases stand for in their places in the expressions of a SELECT's ORDER BY.

    Those of calls that have another value or other rows the next time stay.
    """
    order = select.args.get("order")
    if order is None:
        return
    named = {item.alias.lower(): item.this for item in select.expressions if isinstance(item, exp.Alias)}
    for column in [column for item in order.expressions for column in item.this.find_all(exp.Column)]:
        value = named.get(column.name.lower())
        whole = isinstance(column.parent, exp.Ordered)
        if value is not None and not whole and not column.table and column.parent_select is select and is_repeatable(value):
            column.replace(exp.Paren(this=value.copy()))


def is_repeatable(value: exp.Expr) -> bool:
    return not any(call.name.lower() in ALONE for call in value.find_all(exp.Anonymous))
