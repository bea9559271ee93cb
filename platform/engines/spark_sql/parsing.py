"""Queries as trees."""

from __future__ import annotations

from sqlglot import exp

from ...errors import StatementError
from .dialect import parse, position_of


def parse_query(text: str) -> exp.Query:
    """Read a query.

    Raises:
        StatementError: text that is not Spark SQL, with the place where reading stopped, or no query.
    """
    tree = parse(text)
    if isinstance(tree, exp.Values):
        clauses = {key: tree.args.pop(key, None) for key in ("order", "sort", "cluster", "limit", "offset")}
        tree = exp.Select(expressions=[exp.Star()], from_=exp.From(this=tree), **clauses)
    if not isinstance(tree, exp.Query):
        raise StatementError("Expected a query: SELECT, WITH or VALUES.", position_of(tree))
    return tree
