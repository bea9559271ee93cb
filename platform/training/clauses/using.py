"""USING and OPERATORS: the parts of a training as written. Their values are the plan's algorithm and operators, and a manifest
keeps them as such."""

from __future__ import annotations

from typing import NamedTuple

from ...engines.spark_sql.cursor import Cursor
from ...options import Value
from .base import Clause


class Given(NamedTuple):
    """A part as written: its name with its place, its options, and what an operator acts on, nothing for all."""

    name: Value
    options: dict[str, Value]
    on: tuple[str, ...] = ()


def read_using(cursor: Cursor) -> Given:
    return read_part(cursor, "an algorithm")


def read_operators(cursor: Cursor) -> tuple[Given, ...]:
    cursor.expect("(")
    operators = cursor.listed(lambda: read_operator(cursor))
    cursor.expect(")")
    return operators


def read_operator(cursor: Cursor) -> Given:
    given = read_part(cursor, "an operator")
    if not cursor.accept("ON"):
        return given
    if not cursor.accept("("):
        return given._replace(on=(cursor.identifier("a table, dense, or (table, ...)"),))
    on = cursor.columns("a table, or dense")
    cursor.expect(")")
    return given._replace(on=on)


def read_part(cursor: Cursor, what: str) -> Given:
    position = cursor.position()
    name = Value(cursor.identifier(what), position)
    return Given(name, cursor.options() if cursor.peek("(") else {})


def read_function(cursor: Cursor, what: str) -> Given:
    """Read a fold or an update: its name, or 'file.py:name', and options."""
    position = cursor.position()
    file = cursor.next_kind == "string"
    name = Value(cursor.string(what) if file else cursor.identifier(f"{what}, or 'file.py:name'"), position)
    return Given(name, cursor.options() if cursor.peek("(") else {})


USING = Clause("USING", "algorithm [(option = value, ...)]", "The algorithm, with its options.", read_using, None)
OPERATORS = Clause(
    "OPERATORS",
    "(operator [(option = value, ...)] [ON {table | dense | (table, ...)}], ...)",
    "Transforms of updates, in order, ending with an optimizer; by default the algorithm's own. `safety`, `regularize`, "
    "`decay` of w, `gradient_average`, `staleness_discount` and `delay_compensation` act on dense parameters, too, line by "
    "line. `ON` names the tables that an operator acts on, or `dense`: `regularize (strength = 1) ON vectors`.",
    read_operators,
    None,
)
