"""xpsql's own functions in a statement: each call becomes the Spark SQL that it stands for, the same on every engine."""

from __future__ import annotations

from sqlglot import exp

from ...errors import StatementError
from ...udf import FUNCTIONS
from ...udf.base import Function
from .dialect import SparkSQL, position_of
from .words import AGGREGATE_NAMES

CLAUSES = (exp.Filter, exp.Window, exp.WithinGroup, exp.IgnoreNulls, exp.RespectNulls)
EXPANDED = "expanded"
"""In the `meta` of calls that a function stands for."""
DECLARED = {function.name: function for function in FUNCTIONS}


def expand(root: exp.Expr) -> None:
    """Replace calls of declared functions by the Spark SQL they stand for, the innermost first.

    Raises:
        StatementError: a call has a wrong number of arguments, or one that it cannot take.
    """
    for node in reversed(list(root.find_all(exp.Anonymous))):
        function = DECLARED.get(node.name.lower())
        if function is not None and function.expand is not None:
            expand_call(node, function)


def expand_call(node: exp.Anonymous, function: Function) -> None:
    function.check(len(node.expressions), position_of(node))
    holes = [str(one.to_py()) if one.is_int else f":a{index}" for index, one in enumerate(node.expressions)]
    assert function.expand is not None
    try:
        sql = function.expand(holes)
    except StatementError as error:
        raise error.at(position_of(node)) from error
    tree: exp.Expr = exp.maybe_parse(sql, dialect=SparkSQL, copy=False)
    for part in tree.find_all(exp.Anonymous):
        part.meta[EXPANDED] = True
    for hole in list(tree.find_all(exp.Placeholder)):
        hole.replace(node.expressions[int(hole.name[1:])].copy())
    replace_with_clauses(node, tree)


def with_clauses(outer: exp.Expr, call: exp.Expr) -> exp.Expr:
    """Return a call with the clauses that another one has around it."""
    made = exp.Paren(this=outer.copy())
    core = made.this
    while isinstance(core, CLAUSES):
        core = core.this
    core.replace(call)
    inner: exp.Expr = made.this
    return inner


def replace_with_clauses(node: exp.Expr, tree: exp.Expr) -> None:
    """Put an expanded call in place; its FILTER and OVER go to each aggregate in it."""
    outer = node
    while isinstance(outer.parent, CLAUSES) and outer.parent.this is outer:
        outer = outer.parent
    root = exp.Paren(this=tree)
    if outer is not node:
        for part in [part for part in tree.find_all(exp.Anonymous) if part.name.lower() in AGGREGATE_NAMES]:
            part.replace(with_clauses(outer, part.copy()))
    outer.replace(root)
