"""The rules of translation, one for each kind of node that differs between Spark SQL and DuckDB's.

A rule gets a node whose parts are translated, and returns what takes its place, or the node itself.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from typing import Any

from sqlglot import exp

from ....errors import StatementError
from ....udf import COMPUTED
from ....udf import FUNCTIONS as DECLARED
from ...spark_sql.dialect import position_of
from ...spark_sql.row_makers import second
from ...spark_sql.words import EXPLODES, TYPE_NAMES
from ...unknown_names import no_function
from .aggregates import AGGREGATES, ignoring_nulls
from .arithmetic import arithmetic_rule, int_div_rule
from .calls import ARRAY, MAP, SparkCall, call, cast, check_container, check_kind, string
from .casts import spark_cast, spark_try_cast, string_of
from .coercion import between_rule, case_rule, comparison_rule, if_rule, in_rule, set_rule
from .functions import FUNCTIONS, RENAMED, SPECIAL
from .generators import GENERATORS, check_alone, generated, generator_query
from .joins import join_rule, keys_first
from .lambdas import HIGHER_ORDER
from .macros import SPARK_MACROS
from .ordering import ordered_rule
from .pivots import pivot_rule
from .times import macro, part_of
from .typer import Typer

COMPUTED_NAMES = frozenset(function.name for function in COMPUTED)


def call_rule(node: exp.Anonymous, typer: Typer) -> exp.Expr:
    """A call by name: look up what the function is."""
    written = node.name.lower()
    name = RENAMED.get(written, written)
    if written not in FUNCTIONS:
        if written in COMPUTED_NAMES:
            return node
        raise no_function(written, near(written), position_of(node))
    arguments = list(node.expressions)
    of = SparkCall(name, arguments, node, typer)
    check_container(of, written)
    if name in HIGHER_ORDER and (name != "array_sort" or len(arguments) > 1):
        return HIGHER_ORDER[name].make(of)
    if name in SPECIAL:
        return SPECIAL[name](of)
    if name in AGGREGATES:
        return AGGREGATES[name](of)
    if name in TYPE_NAMES and len(arguments) == 1:
        kind = exp.DataType.build("decimal(10, 0)" if name == "decimal" else name, dialect="spark")
        return spark_cast(arguments[0], typer.type_of(arguments[0]), kind)
    if name in GENERATORS:
        check_alone(node)
        return node
    return macro(of) if name in SPARK_MACROS else call(name, *arguments)


def near(name: str) -> str:
    """Return the nearest function names, not all of them."""
    close = difflib.get_close_matches(name, FUNCTIONS | {function.name for function in DECLARED}, n=3)
    return f" Did you mean {', '.join(close)}?" if close else " Compute it with other functions."


def cast_rule(node: exp.Cast, typer: Typer) -> exp.Expr:
    value, source = node.this, typer.type_of(node.this)
    if isinstance(node, exp.TryCast):
        return spark_try_cast(value, source, node.to)
    if isinstance(value, exp.Literal) and value.is_int and node.to.is_type(*exp.DataType.NUMERIC_TYPES):
        return cast(value, node.to.sql("duckdb"))
    return spark_cast(value, source, node.to)


def concat_rule(node: exp.DPipe, typer: Typer) -> exp.Expr:
    return SPECIAL["concat"](SparkCall("concat", [node.this, node.expression], node, typer))


def type_rule(node: exp.DataType, typer: Typer) -> exp.Expr:
    """DECIMAL without digits is DECIMAL(10, 0)."""
    return exp.DataType.build("DECIMAL(10, 0)") if node.is_type("decimal") and not node.expressions else node


def bracket_rule(node: exp.Bracket, typer: Typer) -> exp.Expr:
    """a[i] counts from 0 in an array; m[k] of a map is NULL for an absent key."""
    check_kind(node.this, (*ARRAY, *MAP, "struct"), "[]", typer)
    kind, index = typer.type_of(node.this), node.expressions[0]
    if (kind is not None and kind.id == "map") or (kind is None and isinstance(index, exp.Literal) and index.is_string):
        return call("map_extract_value", node.this, index)
    if isinstance(index, exp.Literal) and index.is_string:
        return call("struct_extract", node.this, index)
    return call("xpsql_index", node.this, index)


def literal_rule(node: exp.Literal, typer: Typer) -> exp.Expr:
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


def trim_rule(node: exp.Trim, typer: Typer) -> exp.Expr:
    position = str(node.args.get("position") or "BOTH").upper()
    name = {"BOTH": "trim", "LEADING": "ltrim", "TRAILING": "rtrim"}[position]
    return call(name, string_of(node.this, typer.type_of(node.this)), node.expression or string(" "))


def substring_rule(node: exp.Substring, typer: Typer) -> exp.Expr:
    text = string_of(node.this, typer.type_of(node.this))
    parts = [part for part in (node.args.get("start"), node.args.get("length")) if part is not None]
    return call("spark_substring", text, *parts)


def position_rule(node: exp.StrPosition, typer: Typer) -> exp.Expr:
    parts = [part for part in (node.args["substr"], node.this, node.args.get("position")) if part is not None]
    return call("spark_locate", *parts)


def overlay_rule(node: exp.Overlay, typer: Typer) -> exp.Expr:
    parts = (node.this, node.expression, node.args["from_"], node.args.get("for_"))
    return call("spark_overlay", *(part for part in parts if part is not None))


def extract_rule(node: exp.Extract, typer: Typer) -> exp.Expr:
    return part_of(node.this.name, node.expression, typer)


def within_group_rule(node: exp.WithinGroup, typer: Typer) -> exp.Expr:
    """f(args) WITHIN GROUP (ORDER BY x): percentiles take x, listagg the order."""
    made, order = node.this, node.expression
    if made.name in ("quantile_cont", "quantile_disc"):
        value = order.expressions[0].this
        value = cast(value, "DOUBLE") if made.name == "quantile_cont" else value
        result: exp.Expr = call(made.name, value, *made.expressions)
    else:
        separator = made.expressions[1] if len(made.expressions) > 1 else string("")
        result = call(made.name, made.expressions[0], exp.Order(this=separator, expressions=order.expressions))
    result.meta.update(made.meta)
    return result


def window_rule(node: exp.Window, typer: Typer) -> exp.Expr:
    """A function OVER rows.

    Raises:
        StatementError: it is of distinct values.
    """
    if node.this.find(exp.Distinct):
        raise StatementError("DISTINCT does not go with OVER. Write size(collect_set(x) OVER (...)) for count(DISTINCT x).")
    return node


def ignore_nulls_rule(node: exp.IgnoreNulls, typer: Typer) -> exp.Expr:
    return ignoring_nulls(node)


def table_rule(node: exp.Table, typer: Typer) -> exp.Expr:
    """A generator in FROM becomes a query; names stay as they are."""
    if not isinstance(node.this, exp.Anonymous):
        return node
    alias = node.args.get("alias")
    names = [column.name for column in alias.columns] if alias is not None else []
    query = generator_query(node.this, typer, names)
    return exp.Subquery(this=query, alias=alias.copy() if alias is not None else None, sample=node.args.get("sample"))


def values_rule(node: exp.Values, typer: Typer) -> exp.Expr:
    """VALUES without names of columns has Spark's: col1, col2, ..."""
    alias = node.args.get("alias")
    if isinstance(node.parent, exp.In) or (alias is not None and alias.columns):
        return node
    first = node.expressions[0]
    width = len(first.expressions) if isinstance(first, exp.Tuple) else 1
    made = exp.alias_(node.copy(), alias.this if alias is not None else "values", table=[f"col{k + 1}" for k in range(width)])
    if alias is not None:
        return made
    query = exp.select("*").from_(made)
    return query.subquery() if isinstance(node.parent, exp.From | exp.Join) else query


def sample_rule(node: exp.TableSample, typer: Typer) -> exp.Expr:
    """TABLESAMPLE (n PERCENT) draws each row by itself; DuckDB would draw whole blocks."""
    if node.args.get("percent") is not None:
        node.set("method", exp.var("BERNOULLI"))
    return node


def select_rule(node: exp.Select, typer: Typer) -> exp.Expr:
    """Generators among the columns become `unnest`s; `*` begins with the columns of USING."""
    keys_first(node, typer)
    generator: exp.Anonymous | None = None
    for item in list(node.expressions):
        inner = item.this if isinstance(item, exp.Alias | exp.Aliases) else item
        if isinstance(inner, exp.Anonymous) and inner.name.lower() in EXPLODES:
            if generator is not None:
                raise StatementError(second(generator.name, inner.name), position_of(inner))
            generator = inner
            names = (
                [part.name for part in item.expressions]
                if isinstance(item, exp.Aliases)
                else [item.alias]
                if item.alias
                else []
            )
            made = generated(inner, typer, names)
            node.expressions[node.expressions.index(item) : node.expressions.index(item) + 1] = made
            node.set("expressions", node.expressions)
    return node


def group_rule(node: exp.Group, typer: Typer) -> exp.Expr:
    """GROUP BY a, b WITH ROLLUP becomes GROUP BY ROLLUP (a, b)."""
    for key in ("rollup", "cube"):
        for part in node.args.get(key) or []:
            if not part.expressions and node.expressions:
                part.set("expressions", node.expressions)
                node.set("expressions", [])
    return node


def sort_rule(node: exp.Sort | exp.Cluster, typer: Typer) -> exp.Expr:
    """SORT BY and CLUSTER BY sort each partition: here the rows are one.

    Raises:
        StatementError: the query has another order.
    """
    query = node.parent
    assert query is not None  # they are clauses of one
    if query.args.get("order"):
        raise StatementError("A query takes one of ORDER BY, SORT BY and CLUSTER BY.")
    items = [item if isinstance(item, exp.Ordered) else exp.Ordered(this=item, nulls_first=True) for item in node.expressions]
    query.set("order", exp.Order(expressions=items))
    query.set("sort" if isinstance(node, exp.Sort) else "cluster", None)
    return node


def like_rule(node: exp.Like, typer: Typer) -> exp.Expr:
    """LIKE's escape is a backslash unless said otherwise."""
    pattern = node.expression
    if isinstance(node.parent, exp.Escape) or not (isinstance(pattern, exp.Literal) and "\\" in pattern.name):
        return node
    return exp.Escape(this=node.copy(), expression=string("\\"))


def regexp_rule(node: exp.RegexpLike, typer: Typer) -> exp.Expr:
    return call("spark_regexp_like", node.this, node.expression)


def now_rule(node: exp.Expr, typer: Typer) -> exp.Expr:
    return call("now") if isinstance(node, exp.CurrentTimestamp) else cast(call("now"), "DATE")


def lateral_rule(node: exp.Lateral, typer: Typer) -> exp.Expr:
    """LATERAL f(x): a lateral query; the FROM around it gives the types of its arguments."""
    if not isinstance(node.this, exp.Anonymous):
        return node
    alias = node.args.get("alias")
    names = [column.name for column in alias.columns] if alias is not None else []
    query = generator_query(node.this, typer, names, bool(node.args.get("outer")))
    table = exp.TableAlias(this=alias.this if alias is not None and alias.this else exp.to_identifier("generated"))
    lateral = exp.Lateral(this=exp.Subquery(this=query), alias=table)
    if node.arg_key != "laterals":
        return lateral
    select = node.parent_select
    assert select is not None  # only a SELECT has LATERAL VIEWs
    node.pop()
    select.append("joins", exp.Join(this=lateral, kind="CROSS"))
    return node


Rule = Callable[[Any, Typer], exp.Expr]  # each takes the kind of node that it stands under
RULES: dict[type[exp.Expr], Rule] = {
    exp.Anonymous: call_rule,
    exp.Cast: cast_rule,
    exp.DataType: type_rule,
    exp.Add: arithmetic_rule,
    exp.Sub: arithmetic_rule,
    exp.Mul: arithmetic_rule,
    exp.Div: arithmetic_rule,
    exp.Mod: arithmetic_rule,
    exp.IntDiv: int_div_rule,
    **dict.fromkeys((exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE), comparison_rule),
    **dict.fromkeys((exp.NullSafeEQ, exp.NullSafeNEQ), comparison_rule),
    exp.Between: between_rule,
    exp.In: in_rule,
    exp.If: if_rule,
    exp.Case: case_rule,
    exp.SetOperation: set_rule,
    exp.DPipe: concat_rule,
    exp.Bracket: bracket_rule,
    exp.Literal: literal_rule,
    exp.Trim: trim_rule,
    exp.Substring: substring_rule,
    exp.StrPosition: position_rule,
    exp.Overlay: overlay_rule,
    exp.Extract: extract_rule,
    exp.WithinGroup: within_group_rule,
    exp.IgnoreNulls: ignore_nulls_rule,
    exp.Window: window_rule,
    exp.Table: table_rule,
    exp.Values: values_rule,
    exp.TableSample: sample_rule,
    exp.Lateral: lateral_rule,
    exp.Join: join_rule,
    exp.Pivot: pivot_rule,
    exp.Select: select_rule,
    exp.Group: group_rule,
    exp.Ordered: ordered_rule,
    exp.Sort: sort_rule,
    exp.Cluster: sort_rule,
    exp.Like: like_rule,
    exp.ILike: like_rule,
    exp.RegexpLike: regexp_rule,
    exp.CurrentTimestamp: now_rule,
    exp.CurrentDate: now_rule,
}
