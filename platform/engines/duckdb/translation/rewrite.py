"""Spark SQL's tree to DuckDB's: one walk, one small rule for each kind of node that differs.

The order of the walk matters: the relations of a SELECT come before its expressions, because a rule may ask the type of an
operand, which DuckDB binds over those relations.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlglot import exp

from ....errors import StatementError
from ...spark_sql.declared import CLAUSES, expand, with_clauses
from ...spark_sql.dialect import SparkSQL, position_of
from ...spark_sql.names import name_columns
from .aliases import expand_order
from .calls import filled
from .functions import RENAMED
from .lambdas import HIGHER_ORDER
from .pivots import prepare_pivot
from .rules import RULES
from .typer import WRITTEN, Typer
from .windows import place_windows

FIRST = ("with_", "from_", "joins", "laterals")


class Rewriter:
    """Rewrites one statement.

    Attributes:
        typer: finds the types of expressions.
    """

    def __init__(self, typer: Typer) -> None:
        self.typer = typer

    def query(self, tree: exp.Expr) -> exp.Expr:
        """Return DuckDB's tree of a query; the one given is used up."""
        root = exp.Paren(this=tree)
        relations = {relation.alias_or_name.lower() for relation in root.find_all(exp.Table, exp.DerivedTable)}
        for select in list(root.find_all(exp.Select)):
            name_columns(select, relations)
            expand_order(select)
            place_windows(select)
            select.set("hint", None)  # hints say how, not what
        for pivot in root.find_all(exp.Pivot):
            prepare_pivot(pivot, relations)
        expand(root)
        self.walk(root.this)
        made: exp.Expr = root.this
        return made

    def walk(self, node: exp.Expr) -> None:
        """Rewrite a node's children, then the node, in place."""
        if isinstance(node, exp.Lambda) and "types" not in node.meta:
            node.meta["types"] = {}
        for key in sorted(node.args, key=lambda key: FIRST.index(key) if key in FIRST else len(FIRST)):
            value = node.args[key]
            for child in list(value) if isinstance(value, list) else [value]:
                if isinstance(child, exp.Expr):
                    self.visit(node, child)
        self.apply(node)
        if isinstance(node, exp.CTE):
            node.meta[WRITTEN] = node.sql("duckdb")  # once: every expression over it needs it

    def visit(self, parent: exp.Expr, child: exp.Expr) -> None:
        if isinstance(child, exp.Lambda) and isinstance(parent, exp.Anonymous):
            with placed(parent):
                child.meta["types"] = self.parameter_types(parent, child)
        self.walk(child)

    def parameter_types(self, parent: exp.Anonymous, function: exp.Lambda) -> dict[str, str]:
        higher = HIGHER_ORDER.get(RENAMED.get(parent.name.lower(), parent.name.lower()))
        if higher is None:
            return {}
        kinds = [self.typer.type_of(item) for item in parent.expressions if not isinstance(item, exp.Lambda)]
        types = higher.parameters(kinds)
        return {name.name: kind for name, kind in zip(function.expressions, types, strict=False) if kind}

    def apply(self, node: exp.Expr) -> None:
        rule = next((RULES[kind] for kind in type(node).__mro__ if kind in RULES), None)
        with placed(node):
            made = rule(node, self.typer) if rule is not None else node
        if made is not node:
            node.replace(made)
        self.finish(made)

    def finish(self, made: exp.Expr) -> None:
        """Add the FILTER that an aggregate asks for, and wrap it once its own clauses are read."""
        parent = made.parent
        if isinstance(parent, CLAUSES) and parent.this is made:
            return
        core = made
        while isinstance(core, CLAUSES):
            core = core.this
        condition, template = core.meta.pop("filter", None), core.meta.pop("wrap", None)
        others = {name: with_clauses(made, call) for name, call in core.meta.pop("beside", {}).items()}
        if condition is not None:
            made = filtered(made, core, condition)
        if template is not None:
            made.replace(filled(template, x=made, **others))


@contextmanager
def placed(node: exp.Expr) -> Iterator[None]:
    """Place errors inside the block at a node, and turn errors about missing arguments into StatementErrors."""
    try:
        yield
    except StatementError as error:
        raise error if error.position else StatementError(error.message, position_of(node)) from error
    except (IndexError, ValueError) as error:
        name = node.name if isinstance(node, exp.Anonymous) else node.sql(SparkSQL)
        raise StatementError(f"{name} does not take these arguments.", position_of(node)) from error


def filtered(outer: exp.Expr, core: exp.Expr, condition: exp.Expr) -> exp.Expr:
    """Add a condition to an aggregate's FILTER; return the whole, with its clauses."""
    clause = core.parent if isinstance(core.parent, exp.Filter) else None
    if clause is not None:
        clause.set("expression", exp.Where(this=exp.and_(clause.expression.this, condition)))
        return outer
    made = exp.Filter(this=core.copy(), expression=exp.Where(this=condition))
    core.replace(made)
    return made if outer is core else outer
