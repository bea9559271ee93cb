"""Calls of our functions in a parsed Spark statement, replaced by the plain Spark SQL that computes them."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp
from sqlglot.dialects.dialect import DialectType

from ..errors import Position, StatementError
from .base import Function


def rewritten(tree: exp.Expr, functions: Sequence[Function], dialect: DialectType) -> exp.Expr:
    """Return the statement with calls of our functions in plain Spark SQL; the tree is changed in place.

    Args:
        tree: a statement whose calls are `exp.Anonymous`.
        functions: those to look for.
        dialect: reads Spark SQL into such trees.

    Raises:
        StatementError: a call with a wrong number of arguments, or of a rewritten function with DISTINCT, FILTER or OVER.
    """
    named = {function.name: function for function in functions}
    calls = [call for call in tree.find_all(exp.Anonymous) if call.name.lower() in named]
    for call in reversed(calls):
        function = named[call.name.lower()]
        check(call, function)
        if function.sql is not None:
            replacement = expanded(call, function, dialect)
            tree = replacement if call is tree else tree
            call.replace(replacement)
    return tree


def check(call: exp.Anonymous, function: Function) -> None:
    """Refuse a call that the function does not take."""
    outer = isinstance(call.parent, exp.Window | exp.Filter | exp.WithinGroup | exp.IgnoreNulls)
    if function.sql is not None and (outer or any(isinstance(item, exp.Distinct) for item in call.expressions)):
        raise StatementError(
            f"{function.name} takes no DISTINCT, FILTER or OVER; select its rows in a subquery, and use GROUP BY.", place(call)
        )
    given = len(call.expressions)
    if given < function.least or (function.most is not None and given > function.most):
        raise StatementError(f"{function.name} takes {function.signature}, got {given} arguments.", place(call))


def expanded(call: exp.Anonymous, function: Function, dialect: DialectType) -> exp.Expr:
    """Return a call's plain SQL, with the arguments' own nodes, so that they keep their places."""
    assert function.sql is not None  # the caller's condition
    names = [f"xpsql_argument_{number}" for number in range(len(call.expressions))]
    arguments = dict(zip(names, call.expressions, strict=True))
    body: exp.Expr = exp.maybe_parse(function.sql(names), dialect=dialect)
    for column in list(body.find_all(exp.Column)):
        if column.name in arguments:
            column.replace(exp.paren(arguments[column.name], copy=True))
    return exp.paren(body, copy=False)


def place(call: exp.Anonymous) -> Position | None:
    """Return where a call stands."""
    meta = call.meta
    return Position(meta["line"], meta["col"] - (meta["end"] - meta["start"]), call.name) if "line" in meta else None
