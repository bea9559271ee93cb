"""Spark SQL's tree to DuckDB's: one walk, one small rule for each kind of node that differs.

The order of the walk matters: the relations of a SELECT come before its expressions, because a rule may ask the type of an
operand, which DuckDB binds over those relations.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from sqlglot import exp

from ..errors import StatementError, suggestion
from ..udf import COMPUTED
from ..udf import FUNCTIONS as DECLARED
from ..udf.base import Function
from .aggregates import AGGREGATES
from .calls import call, case, cast, filled, number, string
from .casts import spark_cast, spark_try_cast, string_of
from .decimals import LARGEST, OF_INTEGERS, Decimal, added, decimal_of, divided, multiplied, remaining
from .dialect import SparkSQL, position_of
from .functions import FUNCTIONS, MACROS, RENAMED, SPECIAL, TYPE_NAMES, Call, part_of
from .generators import EXPLODES, generated, generator_query
from .lambdas import HIGHER_ORDER
from .names import name_columns
from .typer import Typer

if TYPE_CHECKING:
    from duckdb.sqltypes import DuckDBPyType

COMPUTED_NAMES = frozenset(function.name for function in COMPUTED)
CLAUSES = (exp.Filter, exp.Window, exp.WithinGroup, exp.IgnoreNulls, exp.RespectNulls)
FIRST = ("with_", "from_", "joins", "laterals")
INTERVAL_DAYS = frozenset(("DAY", "WEEK", "MONTH", "YEAR", "QUARTER", "DAYS", "WEEKS", "MONTHS", "YEARS", "QUARTERS"))


class Rewriter:
    """Rewrites one statement.

    Attributes:
        typer: types of expressions.
        declared: xpsql's own functions, by name.
    """

    def __init__(self, typer: Typer) -> None:
        self.typer = typer
        self.declared = {function.name: function for function in DECLARED}

    def query(self, tree: exp.Expression) -> exp.Expression:
        """Return DuckDB's tree of a query; the one given is used up."""
        root = exp.Paren(this=tree)
        self.expand(root)
        for select in list(root.find_all(exp.Select)):
            name_columns(select)
        self.walk(root.this)
        return root.this

    def expand(self, root: exp.Expression) -> None:
        """Replace calls of declared functions by the Spark SQL they stand for."""
        for node in list(root.find_all(exp.Anonymous)):
            function = self.declared.get(node.name.lower())
            if function is not None and function.expand is not None:
                self.expand_call(node, function)

    def expand_call(self, node: exp.Anonymous, function: Function) -> None:
        function.check(len(node.expressions), position_of(node))
        holes = [f":a{index}" for index in range(len(node.expressions))]
        assert function.expand is not None
        tree = exp.maybe_parse(function.expand(holes), dialect=SparkSQL, copy=False)
        for hole in list(tree.find_all(exp.Placeholder)):
            hole.replace(node.expressions[int(hole.name[1:])].copy())
        replace_with_clauses(node, tree)

    def walk(self, node: exp.Expression) -> None:
        """Rewrite a node's children, then the node, in place."""
        if isinstance(node, exp.Lambda) and "types" not in node.meta:
            node.meta["types"] = {}
        for key in sorted(node.args, key=lambda key: FIRST.index(key) if key in FIRST else len(FIRST)):
            value = node.args[key]
            for child in list(value) if isinstance(value, list) else [value]:
                if isinstance(child, exp.Expression):
                    self.visit(node, child)
        self.apply(node)

    def visit(self, parent: exp.Expression, child: exp.Expression) -> None:
        if isinstance(child, exp.Lambda) and isinstance(parent, exp.Anonymous):
            child.meta["types"] = self.parameter_types(parent, child)
        self.walk(child)

    def parameter_types(self, parent: exp.Anonymous, function: exp.Lambda) -> dict[str, str]:
        higher = HIGHER_ORDER.get(RENAMED.get(parent.name.lower(), parent.name.lower()))
        if higher is None:
            return {}
        kinds = [self.typer.type_of(item) for item in parent.expressions if not isinstance(item, exp.Lambda)]
        types = higher.parameters(kinds)
        return {name.name: kind for name, kind in zip(function.expressions, types, strict=False) if kind}

    def apply(self, node: exp.Expression) -> None:
        rule = next((RULES[kind] for kind in type(node).__mro__ if kind in RULES), None)
        try:
            made = rule(self, node) if rule is not None else node
        except StatementError as error:
            raise error if error.position else StatementError(error.message, position_of(node)) from error
        except (IndexError, ValueError) as error:
            name = node.name if isinstance(node, exp.Anonymous) else node.sql(SparkSQL)
            raise StatementError(f"{name} does not take these arguments.", position_of(node)) from error
        if made is not node:
            node.replace(made)
        self.finish(made)

    def finish(self, made: exp.Expression) -> None:
        """Add the FILTER that an aggregate asks for, and wrap it once its own clauses are read."""
        parent = made.parent
        if isinstance(parent, CLAUSES) and parent.this is made:
            return
        core = made
        while isinstance(core, CLAUSES):
            core = core.this
        condition, template = core.meta.pop("filter", None), core.meta.pop("wrap", None)
        if condition is not None:
            made = filtered(made, core, condition)
        if template is not None:
            made.replace(filled(template, x=made))


def filtered(outer: exp.Expression, core: exp.Expression, condition: exp.Expression) -> exp.Expression:
    """Add a condition to an aggregate's FILTER; return the whole, with its clauses."""
    clause = core.parent if isinstance(core.parent, exp.Filter) else None
    if clause is not None:
        clause.set("expression", exp.Where(this=exp.and_(clause.expression.this, condition)))
        return outer
    made = exp.Filter(this=core.copy(), expression=exp.Where(this=condition))
    core.replace(made)
    return made if outer is core else outer


def replace_with_clauses(node: exp.Expression, tree: exp.Expression) -> None:
    """Put an expanded call in place; its FILTER and OVER go to each aggregate in it."""
    outer = node
    while isinstance(outer.parent, CLAUSES) and outer.parent.this is outer:
        outer = outer.parent
    root = exp.Paren(this=tree)
    if outer is not node:
        for part in [part for part in tree.find_all(exp.Anonymous) if part.name.lower() in AGGREGATES]:
            clauses = outer.copy()
            core = clauses
            while isinstance(core, CLAUSES):
                core = core.this
            core.replace(part.copy())
            part.replace(clauses)
    outer.replace(root)


def call_rule(self: Rewriter, node: exp.Anonymous) -> exp.Expression:
    """A call by name: look up what the function is."""
    written = node.name.lower()
    name = RENAMED.get(written, written)
    if written not in FUNCTIONS:
        if written in COMPUTED_NAMES:
            return node
        raise StatementError(f"There is no function {written}.{near(written)}", position_of(node))
    arguments = list(node.expressions)
    of = Call(name, arguments, node, self.typer)
    if name in HIGHER_ORDER and (name != "array_sort" or len(arguments) > 1):
        return HIGHER_ORDER[name].make(of)
    if name in SPECIAL:
        return SPECIAL[name](of)
    if name in AGGREGATES:
        return AGGREGATES[name](of)
    if name in TYPE_NAMES and len(arguments) == 1:
        kind = exp.DataType.build("decimal(10, 0)" if name == "decimal" else name, dialect="spark")
        return spark_cast(arguments[0], self.typer.type_of(arguments[0]), kind)
    return call(f"spark_{name}" if name in MACROS else name, *arguments) if name not in EXPLODES | {"range"} else node


def near(name: str) -> str:
    """Return the nearest function names, not all of them."""
    import difflib

    close = difflib.get_close_matches(name, FUNCTIONS | {function.name for function in DECLARED}, n=3)
    return f" Did you mean {', '.join(close)}?" if close else " See SHOW FUNCTIONS."


def cast_rule(self: Rewriter, node: exp.Cast) -> exp.Expression:
    make = spark_try_cast if isinstance(node, exp.TryCast) else spark_cast
    source = self.typer.type_of(node.this)
    value = node.this
    if isinstance(value, exp.Literal) and value.is_int and node.to.is_type(*exp.DataType.NUMERIC_TYPES):
        return cast(value, node.to.sql("duckdb"))
    return make(value, source, node.to)


def arithmetic_rule(self: Rewriter, node: exp.Binary) -> exp.Expression:
    """+, -, *, / and %: the types of Spark, and an error for division by zero."""
    left, right = node.this, node.expression
    if isinstance(left, exp.Interval) or isinstance(right, exp.Interval):
        return interval_arithmetic(self, node)
    kinds = self.typer.type_of(left), self.typer.type_of(right)
    if any(kind is not None and kind.id == "decimal" for kind in kinds):
        a, b = decimal_of(kinds[0], left), decimal_of(kinds[1], right)
        if a is not None and b is not None:
            return decimal_arithmetic(node, a, b)
    if isinstance(node, exp.Sub) and all(kind is not None and kind.id == "date" for kind in kinds):
        raise StatementError("The difference of two dates is an interval, which is not available here. Use datediff(a, b).")
    left, right = typed_literal(left), typed_literal(right)
    if {"float", "integral"} <= {number_kind(kind) for kind in kinds}:
        left, right = cast(left, "DOUBLE"), cast(right, "DOUBLE")
    if isinstance(node, exp.Div):
        return call("xpsql_divide", cast(left, "DOUBLE"), cast(right, "DOUBLE"))
    if isinstance(node, exp.Mod):
        return call("xpsql_remainder", left, right)
    return type(node)(this=left, expression=right)


def number_kind(kind: DuckDBPyType | None) -> str:
    """Return "integral" for the types of integers, else the type's own name."""
    name = kind.id if kind is not None else ""
    return "integral" if name in OF_INTEGERS else name


def typed_literal(node: exp.Expression) -> exp.Expression:
    """Return an integer literal as INT or BIGINT: DuckDB's would take the other operand's type."""
    if isinstance(node, exp.Literal) and not node.is_string and node.name.isdigit():
        return cast(node, "INTEGER" if int(node.name) < 1 << 31 else "BIGINT")
    return node


def decimal_arithmetic(node: exp.Binary, a: Decimal, b: Decimal) -> exp.Expression:
    rule = {exp.Add: added, exp.Sub: added, exp.Mul: multiplied, exp.Div: divided, exp.Mod: remaining}[type(node)]
    result = rule(a, b)
    left, right = cast(node.this, str(a)), cast(node.expression, str(b))
    if isinstance(node, exp.Mul):
        left, right = cast(node.this, str(Decimal(LARGEST, a.scale))), right
    if isinstance(node, exp.Div):
        return cast(call("xpsql_divide", cast(left, "DOUBLE"), cast(right, "DOUBLE")), str(result))
    if isinstance(node, exp.Mod):
        return cast(call("xpsql_remainder", left, right), str(result))
    return cast(exp.Paren(this=type(node)(this=left, expression=right)), str(result))


def interval_arithmetic(self: Rewriter, node: exp.Binary) -> exp.Expression:
    """A time plus an interval; a date plus whole days stays a date."""
    moment, interval = (
        (node.this, node.expression) if isinstance(node.expression, exp.Interval) else (node.expression, node.this)
    )
    kind = self.typer.type_of(moment)
    made = type(node)(this=moment, expression=interval)
    days = str(interval.args.get("unit")).upper() in INTERVAL_DAYS
    return cast(exp.Paren(this=made), "DATE") if kind is not None and kind.id == "date" and days else made


def int_div_rule(self: Rewriter, node: exp.IntDiv) -> exp.Expression:
    return call("xpsql_div", node.this, node.expression)


def concat_rule(self: Rewriter, node: exp.DPipe) -> exp.Expression:
    return SPECIAL["concat"](Call("concat", [node.this, node.expression], node, self.typer))


def bracket_rule(self: Rewriter, node: exp.Bracket) -> exp.Expression:
    """a[i] counts from 0 in an array; m[k] of a map is NULL for an absent key."""
    kind, index = self.typer.type_of(node.this), node.expressions[0]
    if (kind is not None and kind.id == "map") or (kind is None and isinstance(index, exp.Literal) and index.is_string):
        return call("map_extract_value", node.this, index)
    if isinstance(index, exp.Literal) and index.is_string:
        return call("struct_extract", node.this, index)
    return call("xpsql_index", node.this, index)


def literal_rule(self: Rewriter, node: exp.Literal) -> exp.Expression:
    """Decimals have the precision of their digits, integers beyond BIGINT are decimals."""
    if node.is_string or isinstance(node.parent, exp.Interval | exp.DataTypeParam | exp.Limit | exp.Offset | exp.TableSample):
        return node
    whole, point, fraction = node.name.partition(".")
    if "e" in node.name.lower():
        return node
    if point:
        digits = len((whole + fraction).lstrip("0"))
        return cast(node.copy(), f"DECIMAL({max(digits, len(fraction), 1)},{len(fraction)})")
    return cast(node.copy(), f"DECIMAL({len(whole)},0)") if len(whole) > 18 and int(whole) >= 1 << 63 else node


def trim_rule(self: Rewriter, node: exp.Trim) -> exp.Expression:
    position = str(node.args.get("position") or "BOTH").upper()
    name = {"BOTH": "trim", "LEADING": "ltrim", "TRAILING": "rtrim"}[position]
    return call(name, string_of(node.this, self.typer.type_of(node.this)), node.expression or string(" "))


def substring_rule(self: Rewriter, node: exp.Substring) -> exp.Expression:
    text = string_of(node.this, self.typer.type_of(node.this))
    parts = [part for part in (node.args.get("start"), node.args.get("length")) if part is not None]
    return call("spark_substring", text, *parts)


def position_rule(self: Rewriter, node: exp.StrPosition) -> exp.Expression:
    parts = [part for part in (node.args["substr"], node.this, node.args.get("position")) if part is not None]
    return call("spark_locate", *parts)


def overlay_rule(self: Rewriter, node: exp.Overlay) -> exp.Expression:
    parts = (node.this, node.expression, node.args["from_"], node.args.get("for_"))
    return call("spark_overlay", *(part for part in parts if part is not None))


def extract_rule(self: Rewriter, node: exp.Extract) -> exp.Expression:
    return part_of(node.this.name, node.expression)


def within_group_rule(self: Rewriter, node: exp.WithinGroup) -> exp.Expression:
    """f(args) WITHIN GROUP (ORDER BY x): percentiles take x, listagg the order."""
    made, order = node.this, node.expression
    if made.name in ("quantile_cont", "quantile_disc"):
        value = order.expressions[0].this
        value = cast(value, "DOUBLE") if made.name == "quantile_cont" else value
        result: exp.Expression = call(made.name, value, *made.expressions)
    else:
        separator = made.expressions[1] if len(made.expressions) > 1 else string("")
        result = call(made.name, made.expressions[0], exp.Order(this=separator, expressions=order.expressions))
    result.meta.update(made.meta)
    return result


def table_rule(self: Rewriter, node: exp.Table) -> exp.Expression:
    """A generator in FROM becomes a query; names stay as they are."""
    if not isinstance(node.this, exp.Anonymous):
        return node
    alias = node.args.get("alias")
    names = [column.name for column in alias.columns] if alias is not None else []
    return exp.Subquery(this=generator_query(node.this, self.typer, names), alias=alias.copy() if alias is not None else None)


def select_rule(self: Rewriter, node: exp.Select) -> exp.Expression:
    """Generators among the columns become `unnest`s; ROLLUP and CUBE take DuckDB's form."""
    for item in list(node.expressions):
        inner = item.this if isinstance(item, exp.Alias | exp.Aliases) else item
        if isinstance(inner, exp.Anonymous) and inner.name.lower() in EXPLODES:
            names = (
                [part.name for part in item.expressions]
                if isinstance(item, exp.Aliases)
                else [item.alias]
                if item.alias
                else []
            )
            made = generated(inner, self.typer, names)
            node.expressions[node.expressions.index(item) : node.expressions.index(item) + 1] = made
            node.set("expressions", node.expressions)
    return node


def group_rule(self: Rewriter, node: exp.Group) -> exp.Expression:
    """GROUP BY a, b WITH ROLLUP becomes GROUP BY ROLLUP (a, b)."""
    for key in ("rollup", "cube"):
        for part in node.args.get(key) or []:
            if not part.expressions and node.expressions:
                part.set("expressions", node.expressions)
                node.set("expressions", [])
    return node


def json_like_rule(self: Rewriter, node: exp.Like) -> exp.Expression:
    """LIKE's escape is a backslash unless said otherwise."""
    pattern = node.expression
    if isinstance(node.parent, exp.Escape) or not (isinstance(pattern, exp.Literal) and "\\" in pattern.name):
        return node
    return exp.Escape(this=type(node)(this=node.this, expression=pattern), expression=string("\\"))


def regexp_rule(self: Rewriter, node: exp.RegexpLike) -> exp.Expression:
    return call("spark_regexp_like", node.this, node.expression)


def now_rule(self: Rewriter, node: exp.Expression) -> exp.Expression:
    return call("now") if isinstance(node, exp.CurrentTimestamp) else cast(call("now"), "DATE")


def semi_join_rule(self: Rewriter, node: exp.Join) -> exp.Expression:
    """LATERAL f(x) AS t(c) in FROM; LEFT SEMI and LEFT ANTI lose their LEFT."""
    if node.kind in ("SEMI", "ANTI"):
        node.set("side", None)
    return node


def lateral_rule(self: Rewriter, node: exp.Lateral) -> exp.Expression:
    """LATERAL f(x): a lateral query; the FROM around it gives the types of its arguments."""
    if not isinstance(node.this, exp.Anonymous):
        return node
    alias = node.args.get("alias")
    names = [column.name for column in alias.columns] if alias is not None else []
    query = generator_query(node.this, self.typer, names, bool(node.args.get("outer")))
    table = exp.TableAlias(this=alias.this if alias is not None and alias.this else exp.to_identifier("generated"))
    lateral = exp.Lateral(this=exp.Subquery(this=query), alias=table)
    if node.arg_key != "laterals":
        return lateral
    select = node.parent
    node.pop()
    select.append("joins", exp.Join(this=lateral, kind="CROSS"))
    return node


RULES: dict[type[exp.Expression], Callable[[Rewriter, exp.Expression], exp.Expression]] = {
    exp.Anonymous: call_rule,
    exp.Cast: cast_rule,
    exp.Add: arithmetic_rule,
    exp.Sub: arithmetic_rule,
    exp.Mul: arithmetic_rule,
    exp.Div: arithmetic_rule,
    exp.Mod: arithmetic_rule,
    exp.IntDiv: int_div_rule,
    exp.DPipe: concat_rule,
    exp.Bracket: bracket_rule,
    exp.Literal: literal_rule,
    exp.Trim: trim_rule,
    exp.Substring: substring_rule,
    exp.StrPosition: position_rule,
    exp.Overlay: overlay_rule,
    exp.Extract: extract_rule,
    exp.WithinGroup: within_group_rule,
    exp.Table: table_rule,
    exp.Lateral: lateral_rule,
    exp.Join: semi_join_rule,
    exp.Select: select_rule,
    exp.Group: group_rule,
    exp.Like: json_like_rule,
    exp.ILike: json_like_rule,
    exp.RegexpLike: regexp_rule,
    exp.CurrentTimestamp: now_rule,
    exp.CurrentDate: now_rule,
}
