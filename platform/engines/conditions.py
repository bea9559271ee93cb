"""Filter pushdown: comparisons of stored columns with literals, and their combinations, as Arrow evaluates them.

On Spark the reader of the files evaluates them; on every engine row groups whose statistics rule them out are not read.

Only comparisons on which Arrow and Spark agree are simple: of integers with integers, floats with numbers, strings with
strings, dates with dates, times with times, and tests for NULL. NULL is neither true nor false in both; Spark's NaN is the
greatest number. A time in a text is of the session's zone; where that has it twice, or not at all, it is not simple.
"""

from __future__ import annotations

import datetime
import functools
import operator
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from .spark_sql.lists import unpacked

INTEGERS = ("tinyint", "smallint", "int", "bigint")
FLOATS = ("float", "double")
COMPARISONS = {exp.EQ: "==", exp.NEQ: "!=", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">="}
MIRRORED = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


COMPARED = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
FIRST_YEAR = 1900
"""Before it zones had local times, of which Python and Java differ."""
DAYS = ("to_date", "date")
TIME = re.compile(r"\d{4}-\d\d-\d\d([ T]\d\d:\d\d:\d\d(\.\d{1,6})?)?")


class NotSimple(Exception):
    """A condition that the engine has to evaluate."""


@dataclass(frozen=True)
class Origin:
    """What a WHERE can name.

    Attributes:
        name: the relation's name or alias.
        columns: column in lower case -> stored column.
        types: column in lower case -> Spark's name of its type.
        instants: column in lower case -> its stored type, of those that are stored as microseconds in UTC.
        zone: of the session.
    """

    name: str
    columns: Mapping[str, str]
    types: Mapping[str, str]
    instants: Mapping[str, pa.DataType] = field(default_factory=dict)
    zone: str = "UTC"

    def column(self, node: exp.Expr) -> str:
        """Return the column that a node is, in lower case.

        Raises:
            NotSimple: it is something else.
        """
        if not isinstance(node, exp.Column) or node.db or node.table.lower() not in ("", self.name.lower()):
            raise NotSimple
        if node.name.lower() not in self.columns:
            raise NotSimple
        return node.name.lower()

    def necessary(self, node: exp.Expr) -> list[pc.Expression]:
        """Return the simple conditions that a row must fulfil where a WHERE holds: those of its parts that AND joins.

        Those of floats are left out: statistics of files say nothing of NaN, which is greater than any number.
        """
        if isinstance(node, exp.Paren):
            return self.necessary(node.this)
        if isinstance(node, exp.And):
            return [*self.necessary(node.left), *self.necessary(node.right)]
        if any(self.types.get(column.name.lower()) in FLOATS for column in node.find_all(exp.Column)):
            return []
        try:
            return [self.condition(node)]
        except NotSimple:
            return []

    def condition(self, node: exp.Expr) -> pc.Expression:
        """Return a condition over the stored columns.

        Raises:
            NotSimple: Arrow would evaluate it differently from Spark, or not at all.
        """
        match node:
            case exp.Paren():
                return self.condition(node.this)
            case exp.And():
                return self.condition(node.left) & self.condition(node.right)
            case exp.Or():
                return self.condition(node.left) | self.condition(node.right)
            case exp.Not():
                return ~self.condition(node.this)
            case exp.Is(expression=exp.Null()):
                return pc.field(self.columns[self.column(node.this)]).is_null()
            case exp.Between():
                if node.args.get("symmetric"):
                    raise NotSimple
                return self.compared(node.this, ">=", node.args["low"]) & self.compared(node.this, "<=", node.args["high"])
            case exp.In() if node.expressions:
                return self.among(node.this, unpacked(node.expressions))
            case exp.Column() if self.types.get(node.name.lower()) == "boolean":
                return pc.field(self.columns[self.column(node)])
        if not isinstance(node, exp.Binary) or type(node) not in COMPARISONS:
            raise NotSimple
        sign = COMPARISONS[type(node)]
        if isinstance(node.right, exp.Column):
            return self.compared(node.right, MIRRORED[sign], node.left)
        return self.compared(node.left, sign, node.right)

    def among(self, node: exp.Expr, values: list[exp.Expr]) -> pc.Expression:
        first, *others = (self.compared(node, "==", value) for value in values)
        for other in others:
            first = first | other
        return first

    def compared(self, node: exp.Expr, sign: str, value: exp.Expr) -> pc.Expression:
        """Return the comparison of a column, or the day of one, with a literal."""
        if (moment := day_of(node)) is not None:
            return self.of_day(moment, sign, date_of(value.this if is_date(value) else value).as_py())
        name = self.column(node)
        stored, kind = pc.field(self.columns[name]), self.types[name]
        literal = self.instant(name, time_of(value)) if name in self.instants else literal_of(value, kind)
        if kind in FLOATS:
            stored = stored.cast(pa.float64())
        found = COMPARED[sign](stored, literal)
        return found | pc.is_nan(stored) if kind in FLOATS and sign in (">", ">=") else found

    def of_day(self, node: exp.Expr, sign: str, day: datetime.date) -> pc.Expression:
        """Return the comparison of the day of a time with a day."""
        name = self.column(node)
        if name not in self.instants:
            raise NotSimple
        stored = pc.field(self.columns[name])
        begin, end = (
            self.instant(name, datetime.datetime.combine(day + datetime.timedelta(days), datetime.time())) for days in (0, 1)
        )
        within = (stored >= begin) & (stored < end)
        if sign in ("==", "!="):
            return within if sign == "==" else ~within
        return COMPARED["<" if sign[0] == "<" else ">="](stored, begin if sign in ("<", ">=") else end)

    def instant(self, name: str, local: datetime.datetime) -> pa.Scalar:
        """Return a time of the session's zone as a column stores times.

        Raises:
            NotSimple: the zone has it twice or not at all, is none that is known, or had other rules then.
        """
        try:
            zone = ZoneInfo(self.zone)
        except (ZoneInfoNotFoundError, ValueError, OSError) as error:
            raise NotSimple from error
        first, second = (local.replace(tzinfo=zone, fold=fold) for fold in (0, 1))
        if local.year < FIRST_YEAR or first.utcoffset() != second.utcoffset():
            raise NotSimple
        kind, found = self.instants[name], first.astimezone(datetime.UTC)
        return pa.scalar(found if kind.tz else found.replace(tzinfo=None), kind)


def all_of(conditions: Sequence[pc.Expression]) -> pc.Expression | None:
    """Return the condition that all of some hold; None where there are none."""
    return functools.reduce(operator.and_, conditions) if conditions else None


def literal_of(node: exp.Expr, kind: str) -> pa.Scalar:
    """Return a literal that a column of a type is compared with.

    Raises:
        NotSimple: it is not a literal, or has a type for which Spark casts one of the sides.
    """
    if kind == "date":
        return date_of(node.this if is_date(node) else node)
    if isinstance(node, exp.Boolean) and kind == "boolean":
        return pa.scalar(bool(node.this))
    if kind == "string" and isinstance(node, exp.Literal) and node.is_string:
        return pa.scalar(node.this, pa.string())
    sign, digits = (-1, node.this) if isinstance(node, exp.Neg) else (1, node)
    if not isinstance(digits, exp.Literal) or digits.is_string:
        raise NotSimple
    if kind in INTEGERS and digits.this.isdecimal() and int(digits.this) < 2**63:
        return pa.scalar(sign * int(digits.this), pa.int64())
    if kind in FLOATS:
        return pa.scalar(sign * float(digits.this), pa.float64())
    raise NotSimple


def date_of(node: exp.Expr) -> pa.Scalar:
    if not isinstance(node, exp.Literal) or not node.is_string:
        raise NotSimple
    try:
        return pa.scalar(datetime.date.fromisoformat(node.this), pa.date32())
    except ValueError as error:
        raise NotSimple from error


def is_date(node: exp.Expr) -> bool:
    return isinstance(node, exp.Cast) and node.to.is_type("date")


def day_of(node: exp.Expr) -> exp.Expr | None:
    """Return what an expression is the day of; None where it is something else."""
    if isinstance(node, exp.Anonymous) and node.name.lower() in DAYS and len(node.expressions) == 1:
        found: exp.Expr = node.expressions[0]
        return found
    return node.this if is_date(node) else None


def time_of(node: exp.Expr) -> datetime.datetime:
    """Return the local time that a literal is.

    Raises:
        NotSimple: it is another, or one with a zone of its own.
    """
    if isinstance(node, exp.Cast) and node.to.is_type("date", "timestamp", "timestamptz"):
        if node.to.is_type("date"):
            return datetime.datetime.combine(date_of(node.this).as_py(), datetime.time())
        node = node.this
    if not isinstance(node, exp.Literal) or not node.is_string or not TIME.fullmatch(node.this):
        raise NotSimple
    try:
        return datetime.datetime.fromisoformat(node.this)
    except ValueError as error:
        raise NotSimple from error


def instants_in(stored: pa.Schema) -> dict[str, pa.DataType]:
    """Return the columns that are stored as microseconds in UTC, with their types."""
    kinds = (pa.timestamp("us"), pa.timestamp("us", "UTC"))
    return {column.name: column.type for column in stored if column.type in kinds}
