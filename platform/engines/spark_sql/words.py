"""Names of Spark SQL that parsing, naming and translation share."""

from __future__ import annotations

TYPE_NAMES = {
    "double",
    "int",
    "string",
    "bigint",
    "float",
    "decimal",
    "smallint",
    "tinyint",
    "boolean",
    "date",
    "timestamp",
    "binary",
}


EXPLODES = frozenset(
    ("explode", "explode_outer", "posexplode", "posexplode_outer", "inline", "inline_outer", "stack", "json_tuple")
)

VARYING = frozenset(("rand", "randn", "random", "uuid", "shuffle"))
"""Functions with another value for every row and call."""

AGGREGATE_NAMES = frozenset(
    [
        "any",
        "any_value",
        "approx_count_distinct",
        "approx_percentile",
        "array_agg",
        "avg",
        "bit_and",
        "bit_or",
        "bit_xor",
        "bool_and",
        "bool_or",
        "collect_list",
        "collect_set",
        "corr",
        "count",
        "count_if",
        "covar_pop",
        "covar_samp",
        "cume_dist",
        "dense_rank",
        "every",
        "first",
        "first_value",
        "grouping",
        "kurtosis",
        "lag",
        "last",
        "last_value",
        "lead",
        "listagg",
        "max",
        "max_by",
        "mean",
        "median",
        "min",
        "min_by",
        "mode",
        "nth_value",
        "ntile",
        "percent_rank",
        "percentile",
        "percentile_approx",
        "percentile_cont",
        "percentile_disc",
        "rank",
        "regr_count",
        "regr_intercept",
        "regr_r2",
        "regr_slope",
        "row_number",
        "some",
        "std",
        "stddev",
        "stddev_pop",
        "stddev_samp",
        "string_agg",
        "sum",
        "try_avg",
        "try_sum",
        "var_pop",
        "var_samp",
        "variance",
    ]
)
"""Functions that make one value of many rows, whose FILTER and OVER go with them."""
