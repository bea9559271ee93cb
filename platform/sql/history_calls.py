"""One call of HISTORY, and HISTORY JOIN, read to what is looked up."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from sqlglot import exp

from ..engines.spark_sql.dialect import SparkSQL, parse
from ..errors import StatementError
from ..quoting import quoted
from .history_sql import EventKey, Lookup

OVER = "OVER (PARTITION BY column, ... ORDER BY column)"
FORM = f"HISTORY(value, n [, INTERVAL n DAYS]) [FILTER (WHERE condition)] {OVER}"
JOIN = "HISTORY JOIN events e ON e.user = t.user AND e.ts < t.ts"
MOST = 10_000
GRAMMAR = f"""\
{FORM}
HISTORY(e.value, n [, INTERVAL n DAYS]) [FILTER (WHERE condition)] ... FROM t {JOIN}"""
HELP = (
    "The last n values of the rows of a partition that are strictly earlier, the oldest first: an array, for the columns of a "
    "SELECT without GROUP BY and DISTINCT. NULL values are skipped."
)
"""What docs print."""


class KeptHistory(NamedTuple):
    """A history of the warehouse, as queries use it.

    Attributes:
        events: a query of its events.
        partition, order: columns of it.
        values: its other columns; their order breaks ties.
    """

    events: str
    partition: tuple[str, ...]
    order: str
    values: tuple[str, ...]
    keep: int
    within: str | None


class HistoryJoin(NamedTuple):
    """The operands of HISTORY JOIN: a relation, and the conditions of ON about rows and events."""

    relation: str
    row: EventKey
    event: EventKey


class Reader(NamedTuple):
    """Reads the calls of one SELECT.

    Attributes:
        carry: gives the column that has an expression over the SELECT's rows.
        find: returns the history of a name; None where any will do.
        joined: what HISTORY JOIN joins; None without.
    """

    carry: Callable[[str], str]
    find: Callable[[str], KeptHistory | None]
    joined: HistoryJoin | None

    def lookup(self, node: exp.Expr) -> Lookup:
        """Read a call with its FILTER and OVER.

        Raises:
            StatementError: it is not complete.
        """
        over = node if isinstance(node, exp.Window) else None
        inside = node if over is None else over.this
        condition = inside.expression.this if isinstance(inside, exp.Filter) else None
        call = inside.this if isinstance(inside, exp.Filter) else inside
        if len(call.expressions) not in (2, 3):
            raise StatementError(f"Expected {FORM}.")
        value, second, *rest = call.expressions
        if over is None and self.joined is None:
            if rest and isinstance(value, exp.Column) and value.table and condition is None:
                return self.kept(value, second, rest[0])
            raise StatementError(
                f"HISTORY needs {OVER}, or {JOIN} in FROM; of a history that CREATE HISTORY made it is "
                "HISTORY(name.column, partition, order)."
            )
        if not (isinstance(second, exp.Literal) and second.this.isdecimal() and 1 <= int(second.this) <= MOST):
            raise StatementError(f"HISTORY keeps a whole number of values from 1 to {MOST:,}, got {sql(second)}.")
        if rest and not is_age(rest[0]):
            raise StatementError(f"HISTORY keeps events up to an age, INTERVAL n DAYS or a number from 0, got {sql(rest[0])}.")
        keep, within = int(second.this), sql(rest[0]) if rest else None
        wanted = sql(value) if condition is None else f"CASE WHEN {sql(condition)} THEN {sql(value)} END"
        if self.joined is not None:
            if over is not None:
                raise StatementError("With HISTORY JOIN, HISTORY reads the joined relation. Leave OVER out.")
            return Lookup(self.carried(self.joined.row), self.joined.relation, self.joined.event, wanted, (), keep, within)
        assert over is not None  # there is no join
        row = self.carried(side_of(over))
        return Lookup(row, None, row, self.carry(wanted), (), keep, within)

    def kept(self, value: exp.Column, partition: exp.Expr, order: exp.Expr) -> Lookup:
        """Read HISTORY(name.column, partition, order)."""
        row = self.carried(EventKey(tuple(sql(part) for part in parts_of(partition)), sql(order)))
        found = self.find(value.table)
        if found is None:
            return Lookup(row, None, row, row.order, (), 1, None)
        columns = {name.lower(): name for name in found.values}
        if value.name.lower() not in columns:
            raise StatementError(f"The history {value.table} has the values {', '.join(found.values)}, got {value.name}.")
        if len(row.partition) != len(found.partition):
            raise StatementError(f"The history {value.table} is by ({', '.join(found.partition)}), got {sql(partition)}.")
        return Lookup(
            row=row,
            source=f"({found.events})",
            event=EventKey(tuple(map(quoted, found.partition)), quoted(found.order)),
            value=quoted(columns[value.name.lower()]),
            ties=tuple(map(quoted, found.values)),
            keep=found.keep,
            within=found.within,
        )

    def carried(self, side: EventKey) -> EventKey:
        return EventKey(tuple(map(self.carry, side.partition)), self.carry(side.order))


def parts_of(node: exp.Expr) -> list[exp.Expr]:
    """Return the expressions of `a` or `(a, b)`."""
    return node.expressions if isinstance(node, exp.Tuple) else [node.unnest()]


def is_age(node: exp.Expr) -> bool:
    """Return whether an expression can be an age: an interval or a number, the same for all rows, and not negative."""
    number = node.this if isinstance(node, exp.Interval) else node
    text = isinstance(number, exp.Literal) and number.is_string
    negative = isinstance(number, exp.Neg) or (text and number.name.lstrip().startswith("-"))
    return not (negative or (text and number is node) or node.find(exp.Column))


def side_of(over: exp.Window) -> EventKey:
    """Read OVER."""
    order = over.args.get("order")
    keys = order.expressions if order is not None else []
    if over.args.get("spec") or over.args.get("alias") or len(keys) != 1 or not over.args.get("partition_by"):
        raise StatementError(f"HISTORY takes {OVER}, with one order, and no frame.")
    if keys[0].args.get("desc"):
        raise StatementError("HISTORY is of what came earlier, the oldest first. Leave DESC out.")
    return EventKey(tuple(sql(part) for part in over.args["partition_by"]), sql(keys[0].this))


def joined_by(relation: str, condition: str) -> HistoryJoin:
    """Read the relation and the condition of HISTORY JOIN.

    Raises:
        StatementError: the condition is another than equalities, and one that the events are earlier.
    """
    alias = parse(f"SELECT 1 FROM {relation}").args["from_"].this.alias_or_name.lower()
    tree = parse(f"SELECT {condition}").expressions[0]
    partition: list[tuple[str, str]] = []
    orders: list[tuple[str, str]] = []
    for part in tree.flatten() if isinstance(tree, exp.And) else [tree]:
        core = part.unnest()
        if isinstance(core, exp.EQ | exp.LT | exp.GT):
            turned = is_of(core.expression, alias)
            event, row = (core.expression, core.this) if turned else (core.this, core.expression)
            right = isinstance(core, exp.EQ) or isinstance(core, exp.GT) == turned
            if right and is_of(event, alias) and not is_of(row, alias):
                (partition if isinstance(core, exp.EQ) else orders).append((sql(event), sql(row)))
                continue
        raise StatementError(f"Expected {JOIN}, got {sql(core)}. Give columns the name of their relation.")
    if not partition or len(orders) != 1:
        raise StatementError(f"Expected equalities and one time that is earlier, as in {JOIN}.")
    row = EventKey(tuple(row for _, row in partition), orders[0][1])
    return HistoryJoin(relation, row, EventKey(tuple(event for event, _ in partition), orders[0][0]))


def is_of(node: exp.Expr, alias: str) -> bool:
    return any(column.table.lower() == alias for column in node.find_all(exp.Column))


def sql(node: exp.Expr) -> str:
    """Return an expression as Spark SQL."""
    return node.sql(dialect=SparkSQL, normalize_functions=False)
