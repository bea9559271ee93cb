"""Spark's functions of dates and times on DuckDB."""

from __future__ import annotations

from sqlglot import exp

from ....errors import StatementError
from .calls import Maker, SparkCall, call, cast, filled, number, string
from .coercion import Kind, alike, common, kind_of
from .kinds import INSTANT
from .patterns import formatted, parsed
from .typer import Typer

PARTS = {
    **dict.fromkeys(("year", "y", "years"), "spark_year"),
    **dict.fromkeys(("quarter", "qtr"), "spark_quarter"),
    **dict.fromkeys(("month", "mon", "months"), "spark_month"),
    **dict.fromkeys(("week", "w", "weeks"), "spark_weekofyear"),
    **dict.fromkeys(("day", "d", "days"), "spark_day"),
    **dict.fromkeys(("dayofweek", "dow"), "spark_dayofweek"),
    **dict.fromkeys(("dayofweek_iso", "dow_iso"), "xpsql_isodow"),
    "doy": "spark_dayofyear",
    "yearofweek": "xpsql_isoyear",
    **dict.fromkeys(("hour", "h", "hours"), "spark_hour"),
    **dict.fromkeys(("minute", "m", "min", "minutes"), "spark_minute"),
    **dict.fromkeys(("second", "s", "sec", "seconds"), "xpsql_exact_second"),
}
DATES = {
    **dict.fromkeys(
        ["year", "month", "day", "dayofweek", "weekday", "dayofyear", "weekofyear", "quarter", "dayname", "monthname"], (0,)
    ),
    **dict.fromkeys(["date_add", "date_sub", "add_months", "last_day", "next_day"], (0,)),
    "datediff": (0, 1),
}
INSTANTS = {
    **dict.fromkeys(["hour", "minute", "second", "unix_timestamp"], (0,)),
    "months_between": (0, 1),
}
DATE_PARTS = frozenset(f"spark_{name}" for name in DATES) | {"xpsql_isodow", "xpsql_isoyear"}
UNITS = {
    **{
        unit: unit
        for unit in ["year", "quarter", "month", "week", "day", "hour", "minute", "second", "millisecond", "microsecond"]
    },
    "yyyy": "year",
    "yy": "year",
    "mon": "month",
    "mm": "month",
    "dd": "day",
}
MICROS = {"week": 604_800_000_000, "day": 86_400_000_000, "hour": 3_600_000_000, "minute": 60_000_000, "second": 1_000_000}
MONTHS = {"year": 12, "quarter": 3, "month": 1}


def date_of(value: exp.Expr, typer: Typer) -> exp.Expr:
    """Return a date, an instant's day or a text's date."""
    kind = typer.type_of(value)
    if kind is not None and kind.id == "date":
        return value
    return cast(value, "DATE") if kind is not None and kind.id.startswith("timestamp") else call("spark_to_date", value)


def instant_of(value: exp.Expr, typer: Typer) -> exp.Expr:
    """Return an instant, a date's midnight or a text's instant."""
    kind = typer.type_of(value)
    if kind is not None and kind.id == INSTANT:
        return value
    return cast(value, "TIMESTAMPTZ") if kind is not None and kind.id == "date" else call("spark_to_timestamp", value)


def macro(of: SparkCall) -> exp.Expr:
    """Return the call of a macro, whose dates and instants are made so."""
    arguments = list(of.arguments)
    for index in DATES.get(of.name, ()):
        arguments[index] = date_of(arguments[index], of.typer)
    for index in INSTANTS.get(of.name, ()):
        arguments[index] = instant_of(arguments[index], of.typer)
    return call(f"spark_{of.name}", *arguments)


def sequence(of: SparkCall) -> exp.Expr:
    """sequence(start, stop[, step]): a step of 1 or a day, back where the start is behind the stop."""
    kinds = [kind_of(of.typer.type_of(value)) for value in of.arguments]
    if kinds[0] in ("date", INSTANT):
        kind: Kind | None = kinds[0]
        values: list[exp.Expr] = [*(cast(value, "TIMESTAMP") for value in of.arguments[:2]), *of.arguments[2:]]
        name, step = "xpsql_moments", "CASE WHEN :a > :b THEN INTERVAL '-1' DAY ELSE INTERVAL '1' DAY END"
    else:
        kind, values = common(kinds), alike(of.arguments, of.typer)
        name, step = "xpsql_series", "CASE WHEN :a > :b THEN -1 ELSE 1 END"
    steps = values[2:] or [filled(step, a=values[0], b=values[1])]
    return cast(call(name, *values[:2], *steps), f"{kind or 'BIGINT'}[]")


def date_format(of: SparkCall) -> exp.Expr:
    return formatted(instant_of(of.arguments[0], of.typer), of.literal(1, "its pattern"))


def from_unixtime(of: SparkCall) -> exp.Expr:
    moment = filled("make_timestamp(CAST(:n AS BIGINT) * 1000000)", n=of.arguments[0])
    return formatted(moment, of.literal(1, "its pattern") if len(of.arguments) > 1 else "yyyy-MM-dd HH:mm:ss")


def with_pattern(of: SparkCall) -> exp.Expr:
    """to_date, to_timestamp, unix_timestamp and those that give NULL: an optional second argument is a pattern."""
    if of.name == "unix_timestamp" and not of.arguments:
        return call("spark_unix_timestamp", call("now"))
    name, attempt = of.name.removeprefix("try_"), of.name.startswith("try_")
    value = of.arguments[0]
    if len(of.arguments) > 1 and of.kind(0) in ("varchar", None):
        pattern = of.literal(1, "its pattern")
        made = parsed(value, pattern)
        if not attempt:
            made = call("xpsql_matching", value, string(pattern), made)
        return (
            cast(made, "DATE")
            if name == "to_date"
            else call("spark_unix_timestamp", made)
            if name == "unix_timestamp"
            else made
        )
    if attempt and of.kind(0) == "varchar":
        return call("xpsql_try_date" if name == "to_date" else "xpsql_try_timestamp", value)
    if name == "unix_timestamp":
        return macro(of._replace(arguments=[value]))
    return date_of(value, of.typer) if name == "to_date" else instant_of(value, of.typer)


def in_zone(of: SparkCall) -> exp.Expr:
    """from_utc_timestamp and to_utc_timestamp."""
    moment, zone = instant_of(of.arguments[0], of.typer), of.arguments[1]
    source, target = (string("Z"), zone) if of.name == "from_utc_timestamp" else (zone, string("Z"))
    return filled("make_timestamptz(xpsql_moved(epoch_us(:t), :a, :b))", t=moment, a=source, b=target)


def convert_timezone(of: SparkCall) -> exp.Expr:
    """convert_timezone([source,] target, time): a time without a zone; the session's zone is UTC."""
    source, target, moment = of.arguments if len(of.arguments) == 3 else [string("Z"), *of.arguments]
    return filled(
        "make_timestamp(xpsql_moved(epoch_us(:t), :a, :b))",
        t=cast(instant_of(moment, of.typer), "TIMESTAMP"),
        a=source,
        b=target,
    )


def extract(of: SparkCall) -> exp.Expr:
    return part_of(of.literal(0, "the part"), of.arguments[1], of.typer)


def part_of(part: str, value: exp.Expr, typer: Typer) -> exp.Expr:
    """Return extract(part FROM value).

    Raises:
        StatementError: no such part.
    """
    if part.lower() not in PARTS:
        raise StatementError(f"There is no part {part!r} of a time. Valid: {', '.join(PARTS)}.")
    name = PARTS[part.lower()]
    kind = typer.type_of(value)
    if kind is not None and kind.id == "interval" and name == "spark_day":
        return cast(call("datepart", string("day"), value), "INTEGER")
    return call(name, date_of(value, typer) if name in DATE_PARTS else instant_of(value, typer))


def truncated(of: SparkCall) -> exp.Expr:
    """trunc(date, unit) and date_trunc(unit, time)."""
    to_date = of.name == "trunc"
    unit = of.literal(1 if to_date else 0, "its unit").lower()
    if unit not in UNITS:
        raise StatementError(f"There is no unit {unit!r} of time. Valid: {', '.join(UNITS)}.")
    value = date_of(of.arguments[0], of.typer) if to_date else instant_of(of.arguments[1], of.typer)
    return cast(call("date_trunc", string(UNITS[unit]), value), "DATE" if to_date else "TIMESTAMPTZ")


def unit_of(node: exp.Expr) -> str:
    unit = node.name.lower().removesuffix("s")
    if unit not in MICROS and unit not in MONTHS:
        raise StatementError(f"There is no unit {node.name!r} of time. Valid: {', '.join((*MONTHS, *MICROS))}.")
    return unit


def add_units(of: SparkCall) -> exp.Expr:
    """dateadd, date_add and timestampadd: (date, days) or (unit, n, time)."""
    if len(of.arguments) == 2:
        return macro(of._replace(name="date_add"))
    unit, count, moment = unit_of(of.arguments[0]), *of.arguments[1:]
    step = (
        call("to_months", exp.Mul(this=count, expression=number(MONTHS[unit])))
        if unit in MONTHS
        else call(f"to_{unit}s", count)
    )
    return exp.Paren(this=exp.Add(this=instant_of(moment, of.typer), expression=step))


def units_between(of: SparkCall) -> exp.Expr:
    """datediff and timestampdiff: (end, start) in days, or (unit, start, end)."""
    if len(of.arguments) == 2:
        return macro(of._replace(name="datediff"))
    unit = unit_of(of.arguments[0])
    start, end = (instant_of(item, of.typer) for item in of.arguments[1:])
    if unit in MONTHS:
        return cast(filled("trunc(xpsql_months_apart(:a, :b) / :n)", a=start, b=end, n=number(MONTHS[unit])), "BIGINT")
    return cast(filled("trunc(xpsql_micros_apart(:a, :b) / :n)", a=start, b=end, n=number(MICROS[unit])), "BIGINT")


TIMES: dict[str, Maker] = {
    "sequence": sequence,
    "date_format": date_format,
    "to_date": with_pattern,
    "to_timestamp": with_pattern,
    "unix_timestamp": with_pattern,
    "try_to_date": with_pattern,
    "try_to_timestamp": with_pattern,
    "from_unixtime": from_unixtime,
    "from_utc_timestamp": in_zone,
    "to_utc_timestamp": in_zone,
    "convert_timezone": convert_timezone,
    "extract": extract,
    "trunc": truncated,
    "date_trunc": truncated,
    "date_add": add_units,
    "dateadd": add_units,
    "timestampadd": add_units,
    "datediff": units_between,
    "timestampdiff": units_between,
}
