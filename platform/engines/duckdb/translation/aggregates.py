"""Spark's aggregate and window functions on DuckDB.

A maker returns the call; `wrap` asks for casts around the call with its FILTER and OVER.
"""

from __future__ import annotations

from sqlglot import exp

from ....errors import StatementError
from .arithmetic import scaled
from .calls import Maker, SparkCall, beside, call, case, cast, not_null, number, renamed, wrap
from .decimals import LARGEST, Decimal, decimal_of
from .ordering import has_parts, ordered

SKIPPING = {"first": exp.FirstValue, "last": exp.LastValue, "lag": exp.Lag, "lead": exp.Lead}
REALS = ("double", "float")
UNDEFINED = "nullif(:x, CAST('NaN' AS DOUBLE))"  # of a line through one point


def sum_of(of: SparkCall) -> exp.Expr:
    """sum: BIGINT of integers, ten digits more of decimals.

    Raises:
        StatementError: of booleans.
    """
    kind = of.typer.type_of(undistinct(of.arguments[0]))
    if kind is not None and kind.id == "boolean":
        raise StatementError("sum takes numbers, got a BOOLEAN. Use count_if, or CAST it to INT.")
    made = call("sum", *of.arguments)
    if kind is None or kind.id in REALS:
        return made
    if kind.id == "decimal":
        decimal = decimal_of(kind)
        return wrap(made, f"CAST(:x AS {Decimal(min(decimal.precision + 10, LARGEST), decimal.scale)})")
    return wrap(made, "CAST(:x AS BIGINT)")


def try_sum(of: SparkCall) -> exp.Expr:
    """try_sum: as sum, and NULL where that is too large."""
    made = sum_of(of)
    template = made.meta.get("wrap")
    if template is not None:
        made.meta["wrap"] = f"TRY_{template}"
    return made


def average(of: SparkCall) -> exp.Expr:
    kind = of.typer.type_of(undistinct(of.arguments[0]))
    if kind is None or kind.id != "decimal":
        return call("avg", *of.arguments)
    decimal = decimal_of(kind)
    result = Decimal(min(decimal.precision + 4, LARGEST), min(decimal.scale + 4, LARGEST))
    unit = 10 ** (result.scale + 1 - decimal.scale)  # a digit more than the result has, which rounds it
    digits = exp.Var(this=f"xpsql_average(xpsql_unscaled(:x), :n, CAST({unit} AS HUGEINT))")
    template = cast(scaled(digits, result.scale + 1), str(result)).sql("duckdb")
    return beside(wrap(call("sum", *of.arguments), template), n=call("count", *(part.copy() for part in of.arguments)))


def extreme(name: str, by: str) -> Maker:
    """Return the maker of max and min; of a struct or array that with the largest or smallest key of its order."""

    def make(of: SparkCall) -> exp.Expr:
        value = undistinct(of.arguments[0])
        kind = of.typer.type_of(value)
        return call(by, value, ordered(value, kind)) if has_parts(kind) else call(name, *of.arguments)

    return make


def extreme_by(name: str) -> Maker:
    """Return the maker of max_by and min_by."""
    return lambda of: call(name, of.arguments[0], ordered(of.arguments[1], of.typer.type_of(of.arguments[1])))


def undistinct(node: exp.Expr) -> exp.Expr:
    return node.expressions[0] if isinstance(node, exp.Distinct) else node


def count(of: SparkCall) -> exp.Expr:
    """count: of several columns, rows where all are present."""
    argument = of.arguments[0] if of.arguments else exp.Star()
    if isinstance(argument, exp.Distinct) and len(argument.expressions) > 1:
        present = exp.and_(*(not_null(item.copy()) for item in argument.expressions))
        return call("count", exp.Distinct(expressions=[case(present, call("row", *argument.expressions), None)]))
    if len(of.arguments) > 1:
        return call("count", case(exp.and_(*(not_null(item.copy()) for item in of.arguments)), number(1), None))
    return call("count", argument)


def collected(of: SparkCall) -> exp.Expr:
    """collect_list and collect_set: without NULLs, never NULL."""
    argument = of.arguments[0]
    if of.name == "collect_set" and not isinstance(argument, exp.Distinct):
        argument = exp.Distinct(expressions=[argument])
    made = call("list", argument)
    made.meta["filter"] = not_null(undistinct(of.arguments[0]).copy())
    return wrap(made, "coalesce(:x, [])")


def edge(name: str) -> Maker:
    """Return the maker of first and last, whose second argument says to skip NULLs."""

    def make(of: SparkCall) -> exp.Expr:
        skip = len(of.arguments) > 1 and isinstance(of.arguments[1], exp.Boolean) and of.arguments[1].this
        made = call(name, of.arguments[0])
        if not skip:
            return made
        if isinstance(of.node.parent, exp.Window):
            return exp.IgnoreNulls(this=SKIPPING[name](this=of.arguments[0]))
        made.meta["filter"] = not_null(of.arguments[0].copy())
        return made

    return make


def ignoring_nulls(node: exp.IgnoreNulls) -> exp.Expr:
    """Return `f(x) IGNORE NULLS` of a rewritten call.

    Raises:
        StatementError: a function that has no such form.
    """
    made: exp.Expr = node.this
    if made.name not in SKIPPING:
        raise StatementError("IGNORE NULLS goes with first_value, last_value, any_value, lag and lead only.")
    if not isinstance(node.parent, exp.Window):
        made.meta["filter"] = not_null(made.expressions[0].copy())
        return made
    value, offset, default = [*made.expressions, None, None][:3]
    return exp.IgnoreNulls(this=SKIPPING[made.name](this=value, offset=offset, default=default))


def quantile(name: str) -> Maker:
    """Return the maker of percentile functions; an accuracy, the third argument, is of no use to an exact answer."""

    def make(of: SparkCall) -> exp.Expr:
        value, share = of.arguments[:2]
        if isinstance(share, exp.Anonymous) and share.name == "list_value":
            share = exp.Array(expressions=share.expressions)
        return call(name, cast(value, "DOUBLE") if name == "quantile_cont" else value, share)

    return make


def median(of: SparkCall) -> exp.Expr:
    return call("median", cast(of.arguments[0], "DOUBLE"))


AGGREGATES: dict[str, Maker] = {
    "sum": sum_of,
    "try_sum": try_sum,
    "avg": average,
    "try_avg": average,
    "mean": average,
    "count": count,
    "min": extreme("min", "arg_min"),
    "max": extreme("max", "arg_max"),
    "stddev": renamed("stddev_samp"),
    "std": renamed("stddev_samp"),
    "stddev_samp": renamed("stddev_samp"),
    "stddev_pop": renamed("stddev_pop"),
    "variance": renamed("var_samp"),
    "var_samp": renamed("var_samp"),
    "var_pop": renamed("var_pop"),
    "corr": renamed("corr", UNDEFINED),
    "covar_pop": renamed("covar_pop"),
    "covar_samp": renamed("covar_samp"),
    "kurtosis": renamed("kurtosis_pop"),
    "percentile": quantile("quantile_cont"),
    "median": median,
    "percentile_approx": quantile("quantile_disc"),
    "approx_percentile": quantile("quantile_disc"),
    "percentile_cont": renamed("quantile_cont"),
    "percentile_disc": renamed("quantile_disc", "CAST(:x AS DOUBLE)"),
    "mode": renamed("mode"),
    "approx_count_distinct": renamed("approx_count_distinct", "CAST(:x AS BIGINT)"),
    "bool_and": renamed("bool_and"),
    "every": renamed("bool_and"),
    "bool_or": renamed("bool_or"),
    "some": renamed("bool_or"),
    "any": renamed("bool_or"),
    "count_if": renamed("count_if", "CAST(coalesce(:x, 0) AS BIGINT)"),
    "max_by": extreme_by("arg_max_null"),
    "min_by": extreme_by("arg_min_null"),
    "any_value": edge("first"),
    "first": edge("first"),
    "last": edge("last"),
    "first_value": edge("first"),
    "last_value": edge("last"),
    "nth_value": renamed("nth_value"),
    "collect_list": collected,
    "array_agg": collected,
    "collect_set": collected,
    "bit_and": renamed("bit_and"),
    "bit_or": renamed("bit_or"),
    "bit_xor": renamed("bit_xor"),
    "regr_slope": renamed("regr_slope", UNDEFINED),
    "regr_intercept": renamed("regr_intercept", UNDEFINED),
    "regr_r2": renamed("regr_r2"),
    "regr_count": renamed("regr_count", "CAST(:x AS BIGINT)"),
    "listagg": renamed("string_agg"),
    "string_agg": renamed("string_agg"),
    "grouping": renamed("grouping", "CAST(:x AS TINYINT)"),
    "row_number": renamed("row_number", "CAST(:x AS INTEGER)"),
    "rank": renamed("rank", "CAST(:x AS INTEGER)"),
    "dense_rank": renamed("dense_rank", "CAST(:x AS INTEGER)"),
    "ntile": renamed("ntile", "CAST(:x AS INTEGER)"),
    "percent_rank": renamed("percent_rank"),
    "cume_dist": renamed("cume_dist"),
    "lag": renamed("lag"),
    "lead": renamed("lead"),
}
