"""Spark's functions on DuckDB: what a call of each becomes.

A function is one of: the same in DuckDB (SAME), another name (RENAMED), a macro of macros.sql (SPARK_MACROS), a maker in
SPECIAL, or an aggregate in `aggregates`. FUNCTIONS names them all; a call of any other is an error. The parity table holds
every one to the values and types of a live Spark.
"""

from __future__ import annotations

import functools
import re

from sqlglot import exp

from ....errors import StatementError
from ...spark_sql.words import TYPE_NAMES
from .aggregates import AGGREGATES
from .arithmetic import ARITHMETIC
from .calls import Maker, SparkCall, call, cast, filled, function, renamed, strict, string
from .casts import concatenated, null_text, spark_cast, string_of
from .coercion import map_of, nullif, nvl2, of_one_type
from .generators import GENERATORS
from .json_text import from_json, get_json_object, to_json
from .kinds import spark_name
from .lambdas import HIGHER_ORDER
from .macros import SPARK_MACROS
from .ordering import sorted_array
from .rounding import ceil_floor, rounding
from .times import TIMES
from .windows import WINDOW, window

SAME = frozenset(
    [
        "abs",
        "exp",
        "cbrt",
        "cos",
        "sin",
        "tan",
        "atan",
        "atan2",
        "sinh",
        "cosh",
        "tanh",
        "degrees",
        "radians",
        "pi",
        "pow",
        "translate",
        "contains",
        "md5",
        "sha1",
        "base64",
        "unhex",
        "map_keys",
        "map_values",
        "map_entries",
        "map_from_entries",
        "uuid",
    ]
)
RENAMED = {
    "ceiling": "ceil",
    "lcase": "lower",
    "ucase": "upper",
    "char_length": "length",
    "character_length": "length",
    "char": "chr",
    "btrim": "trim",
    "substr": "substring",
    "dayofmonth": "day",
    "date_diff": "datediff",
    "to_unix_timestamp": "unix_timestamp",
    "regexp": "regexp_like",
    "rlike": "regexp_like",
    "sha": "sha1",
    "power": "pow",
    "cardinality": "size",
    "ifnull": "coalesce",
    "nvl": "coalesce",
    "reduce": "aggregate",
    "printf": "format_string",
    "position": "locate",
    "signum": "sign",
    "date_part": "extract",
    "datepart": "extract",
    "now": "current_timestamp",
    "curdate": "current_date",
}
CHARSETS = ("UTF-8", "ISO-8859-1")
CONVERSION = re.compile(r"%(?![%n])(?:(\d+)\$)?[-#+ 0,(]*\d*(?:\.\d+)?([a-zA-Z])|%[%n]")


def text_of(of: SparkCall, index: int) -> exp.Expr:
    return string_of(of.arguments[index], of.typer.type_of(of.arguments[index]))


def concat(of: SparkCall) -> exp.Expr:
    if of.kind(0) == "list":
        return exp.Paren(this=functools.reduce(lambda a, b: exp.DPipe(this=a, expression=b), of.arguments))
    return concatenated(*(text_of(of, index) for index in range(len(of.arguments))))


def concat_ws(of: SparkCall) -> exp.Expr:
    parts = [
        spark_cast_list(of, index) if of.kind(index) == "list" else call("list_value", text_of(of, index))
        for index in range(1, len(of.arguments))
    ]
    values = call("list_concat", *parts) if parts else call("list_value", cast(exp.null(), "VARCHAR"))
    kept = filled("list_filter(:items, lambda e: e IS NOT NULL)", items=values)
    return filled("array_to_string(:kept, :sep)", kept=kept, sep=of.arguments[0])


def typeof(of: SparkCall) -> exp.Expr:
    kind = of.typer.type_of(of.arguments[0])
    return string("void" if kind is None else spark_name(kind))


def spark_cast_list(of: SparkCall, index: int) -> exp.Expr:
    kind = of.typer.type_of(of.arguments[index])
    return spark_cast(of.arguments[index], kind, exp.DataType.build("ARRAY<STRING>", dialect="spark"))


def reverse(of: SparkCall) -> exp.Expr:
    return call("list_reverse", *of.arguments) if of.kind(0) == "list" else call("xpsql_reversed", text_of(of, 0))


def sort_array(of: SparkCall) -> exp.Expr:
    values, *others = of.arguments
    return sorted_array(f"spark_{of.name}", values, others, of.typer.type_of(values))


def size(of: SparkCall) -> exp.Expr:
    return call("xpsql_map_size" if of.kind(0) == "map" else "spark_array_size", *of.arguments)


def element_at(of: SparkCall) -> exp.Expr:
    if of.kind(0) == "map":
        return call("map_extract_value", *of.arguments)
    return call("xpsql_array_element", *of.arguments)


def try_element_at(of: SparkCall) -> exp.Expr:
    return call("map_extract_value" if of.kind(0) == "map" else "xpsql_try_array_element", *of.arguments)


def struct(of: SparkCall) -> exp.Expr:
    fields = [(field_name(item, index), field_value(item)) for index, item in enumerate(of.arguments, start=1)]
    return structure(fields)


def field_name(item: exp.Expr, index: int) -> str:
    return item.alias_or_name if isinstance(item, exp.Alias | exp.Column | exp.Identifier | exp.PropertyEQ) else f"col{index}"


def field_value(item: exp.Expr) -> exp.Expr:
    return item.expression if isinstance(item, exp.PropertyEQ) else item.this if isinstance(item, exp.Alias) else item


def structure(fields: list[tuple[str, exp.Expr]]) -> exp.Expr:
    return exp.Struct(expressions=[exp.PropertyEQ(this=exp.to_identifier(n, quoted=True), expression=v) for n, v in fields])


def named_struct(of: SparkCall) -> exp.Expr:
    names = [of.literal(index, "field names") for index in range(0, len(of.arguments), 2)]
    return structure(list(zip(names, of.arguments[1::2], strict=True)))


def arrays_zip(of: SparkCall) -> exp.Expr:
    names = [item.name if isinstance(item, exp.Column) else str(index) for index, item in enumerate(of.arguments)]
    items = structure([(name, filled(f"e[{k}]")) for k, name in enumerate(names, 1)])
    return strict(call("list_transform", call("list_zip", *of.arguments), function(items, "e")), of.arguments)


def hashed(of: SparkCall) -> exp.Expr:
    """hash: Murmur3 of all arguments.

    Raises:
        StatementError: one is a map, which Spark refuses, too.
    """
    if "map" in map(of.kind, range(len(of.arguments))):
        raise StatementError("hash takes no map. Hash its keys and values: hash(map_keys(m), map_values(m)).")
    return cast(call("xpsql_murmur", *of.arguments), "INTEGER")


def elt(of: SparkCall) -> exp.Expr:
    """elt(n, a, b, ...): the n-th of texts."""
    texts = call("list_value", *(text_of(of, index) for index in range(1, len(of.arguments))))
    return filled("xpsql_elt(:n, :texts)", n=of.arguments[0], texts=texts)


def charset(of: SparkCall) -> str:
    """Return the character set of encode and decode.

    Raises:
        StatementError: it is none of those that are available.
    """
    name = of.literal(1, "its character set").upper() if len(of.arguments) > 1 else "UTF-8"
    if name not in CHARSETS:
        raise StatementError(f"{of.name} takes the character sets {', '.join(CHARSETS)}, got {name!r}.")
    return name


def encode(of: SparkCall) -> exp.Expr:
    if charset(of) != "UTF-8":
        raise StatementError("encode makes UTF-8 here. Write encode(x, 'UTF-8').")
    return call("encode", of.arguments[0])


def decode(of: SparkCall) -> exp.Expr:
    return call("decode" if charset(of) == "UTF-8" else "xpsql_latin_text", of.arguments[0])


def unbase64(of: SparkCall) -> exp.Expr:
    return call("from_base64", of.arguments[0])


def format_string(of: SparkCall) -> exp.Expr:
    """format_string: %s takes a text of any value, other conversions a number as it is."""
    written = of.arguments[0]
    shown = as_text(written.name) if isinstance(written, exp.Literal) else range(1, len(of.arguments))
    values = [null_text(item, of.typer.type_of(item)) if k in shown else item for k, item in enumerate(of.arguments)]
    return call("printf", written, *values[1:])


def as_text(format: str) -> set[int]:
    """Return the places of the arguments that a format shows by %s."""
    found, place = set(), 0
    for own, kind in CONVERSION.findall(format):
        place += bool(kind) and not own
        if kind == "s":
            found.add(int(own or place))
    return found


def constant(template: str) -> Maker:
    return lambda of: filled(template)


def url_encode(of: SparkCall) -> exp.Expr:
    return call("replace", call("url_encode", *of.arguments), string("%20"), string("+"))


def url_decode(of: SparkCall) -> exp.Expr:
    return call("url_decode", call("replace", of.arguments[0], string("+"), string(" ")))


def random(of: SparkCall) -> exp.Expr:
    """rand and random: without a seed, whose numbers would not be Spark's."""
    if of.arguments:
        raise StatementError(f"{of.name} takes no seed here. Use xxhash64 of a column for numbers that stay the same.")
    return call("random")


SPECIAL: dict[str, Maker] = {
    **TIMES,
    WINDOW: window,
    **ARITHMETIC,
    "url_encode": url_encode,
    "url_decode": url_decode,
    "rand": random,
    "random": random,
    "startswith": renamed("starts_with"),
    "endswith": renamed("ends_with"),
    "array_min": renamed("list_min"),
    "array_max": renamed("list_max"),
    "concat": concat,
    "concat_ws": concat_ws,
    "reverse": reverse,
    "sort_array": sort_array,
    "array_sort": sort_array,
    "size": size,
    "element_at": element_at,
    "try_element_at": try_element_at,
    "ceil": ceil_floor,
    "floor": ceil_floor,
    "round": rounding,
    "bround": rounding,
    "struct": struct,
    "named_struct": named_struct,
    "array": of_one_type("list_value"),
    "coalesce": of_one_type("coalesce"),
    "least": of_one_type("least"),
    "greatest": of_one_type("greatest"),
    "nvl2": nvl2,
    "nullif": nullif,
    "map": map_of,
    "arrays_zip": arrays_zip,
    "map_concat": lambda of: strict(call("map_concat", *of.arguments), of.arguments),
    "from_json": from_json,
    "get_json_object": get_json_object,
    "to_json": to_json,
    "encode": encode,
    "decode": decode,
    "unbase64": unbase64,
    "format_string": format_string,
    "xxhash64": renamed("xpsql_xxhash64"),
    "hash": hashed,
    "elt": elt,
    "typeof": typeof,
    "current_timestamp": constant("now()"),
    "current_date": constant("CAST(now() AS DATE)"),
}
FUNCTIONS = (
    SAME | SPARK_MACROS | RENAMED.keys() | SPECIAL.keys() | TYPE_NAMES | AGGREGATES.keys() | HIGHER_ORDER.keys() | GENERATORS
)
