"""Queries as trees."""

from __future__ import annotations

from sqlglot import exp

from ..errors import StatementError
from .dialect import parse, position_of


def parse_query(text: str) -> exp.Query:
    """Read a query.

    Raises:
        StatementError: text that is not Spark SQL, with the place where reading stopped, or no query.
    """
    tree = parse(text)
    if isinstance(tree, exp.Values):
        names = [f"col{number + 1}" for number in range(width(tree))]
        tree = exp.select("*").from_(exp.alias_(tree, "values", table=names))
    if not isinstance(tree, exp.Query):
        raise StatementError("A query was expected: SELECT, WITH or VALUES.", position_of(tree))
    return tree


def width(values: exp.Values) -> int:
    """Return how many columns VALUES has."""
    first = values.expressions[0]
    return len(first.expressions) if isinstance(first, exp.Tuple) else 1
