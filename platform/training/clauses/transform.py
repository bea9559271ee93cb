"""TRANSFORM: a SELECT list of row-wise expressions, in which some calls stand for fitted constants."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from ...engines.spark_sql.cursor import Cursor
from ...engines.spark_sql.lexer import Token, tokenize
from ...engines.spark_sql.passage import Passage
from ...engines.spark_sql.words import AGGREGATE_NAMES, EXPLODES
from ...errors import Position, StatementError
from ...input.transform import Transform
from ...quoting import quoted
from ...udf.features import MOST_QUANTILES, quantile_bounds
from .base import Clause, always

if TYPE_CHECKING:
    from sqlglot import exp

MOST_WORDS = 10_000
VALUE = "xpsql_value"
VARYING = frozenset(
    """rand randn random uuid shuffle now curdate current_date current_time current_timestamp localtimestamp unix_timestamp
    monotonically_increasing_id spark_partition_id input_file_name""".split()  # noqa: SIM905
)
"""Nondeterministic functions: a row gets another value the next time, or elsewhere."""


class Constant(NamedTuple):
    """A call that is computed once.

    Attributes:
        aggregate: an aggregate of :x and the number :n in Spark SQL; None where `groups` gives the constant.
        groups: what follows SELECT x FROM ... GROUP BY x, of the count and :n; its rows are the constant.
        numbered: it takes a second argument, which is a whole number of at least 1.
    """

    aggregate: Callable[[str, int], str] | None
    groups: Callable[[int], str] | None = None
    numbered: bool = False


CONSTANTS = {
    "QUANTILES": Constant(lambda x, n: quantile_bounds.expand((x, str(n))), numbered=True),
    "MEAN": Constant(lambda x, n: f"avg(CAST({x} AS DOUBLE))"),
    "STDDEV": Constant(lambda x, n: f"stddev_samp(CAST({x} AS DOUBLE))"),
    "MIN": Constant(lambda x, n: f"min({x})"),
    "MAX": Constant(lambda x, n: f"max({x})"),
    "MODE": Constant(None, lambda n: f"ORDER BY count(*) DESC, {VALUE} LIMIT 1"),
    "VOCABULARY": Constant(None, lambda n: f"HAVING count(*) >= {n} ORDER BY {VALUE} LIMIT {MOST_WORDS + 1}", numbered=True),
}


@dataclass(frozen=True)
class ConstantCall:
    """A call of a constant in a list: where it stands, its first argument, and its number."""

    name: str
    start: int
    end: int
    argument: Passage
    number: int
    position: Position


class WrittenRate(NamedTuple):
    """RATE beside its expression: the label that is counted, and the prior, None where none is given."""

    label: str
    prior: float | None


@dataclass(frozen=True)
class WrittenItem:
    """An item of a list as written: its name, its expression, its calls of constants, and the columns that it reads; the rates
    of its values are offered where it has `rate`."""

    name: str
    passage: Passage
    calls: tuple[ConstantCall, ...]
    reads: frozenset[str]
    plain: bool
    position: Position
    rate: WrittenRate | None = None


@dataclass(frozen=True)
class Written:
    """A list as written; `left_out` is what * leaves out, None where there is no *."""

    text: str
    columns: tuple[WrittenItem, ...]
    left_out: tuple[str, ...] | None


def read_transform(cursor: Cursor) -> Written:
    """Read (item, ...).

    Raises:
        StatementError: an item is not a named expression of one row.
    """
    inside = cursor.parenthesised()
    columns: list[WrittenItem] = []
    left_out: tuple[str, ...] | None = None
    for passage in split(inside):
        inner = Cursor(passage, tokenize(passage))
        if inner.accept("*"):
            if left_out is not None:
                raise StatementError("TRANSFORM has * twice. Leave one out.", passage.position(0, "*"))
            left_out = ()
            if inner.accept("EXCEPT"):
                inner.expect("(")
                left_out = inner.columns("a column")
                inner.expect(")")
            inner.done()
        else:
            columns.append(read_column(passage))
    names = [column.name.lower() for column in columns]
    for index, column in enumerate(columns):
        if names[index] in names[:index]:
            raise StatementError(f"TRANSFORM gives {column.name} twice. Name one of them otherwise.", column.position)
    return Written(inside.text.strip(), tuple(columns), left_out)


def split(inside: Passage) -> Iterator[Passage]:
    """Yield the items of a list, which commas separate."""
    depth, first, tokens = 0, 0, tokenize(inside)
    if not tokens:
        raise StatementError("TRANSFORM expects columns: TRANSFORM (expression AS name, ..., *).", inside.position(0, "("))
    for index, token in enumerate(tokens):
        if token.kind == "symbol":
            depth += (token.text in "([") - (token.text in ")]")
        if token.text == "," and token.kind == "symbol" and not depth:
            yield item_of(inside, tokens[first:index], token)
            first = index + 1
    yield item_of(inside, tokens[first:], tokens[-1])


def item_of(inside: Passage, tokens: Sequence[Token], after: Token) -> Passage:
    if not tokens:
        raise StatementError("Expected a column of TRANSFORM.", inside.position(after.start, after.text))
    return inside.cut(tokens[0].start, tokens[-1].end)


def read_column(passage: Passage) -> WrittenItem:
    """Read `expression AS name`, or a column's name."""
    from sqlglot import exp

    from ...engines.spark_sql.dialect import parse  # brings sqlglot

    calls = tuple(calls_of(passage))
    whole = passage.position(0, passage.text)
    with (ahead := passage.inserted("SELECT ", 0).joined(passage)).locating():
        tree = parse(ahead.text)
    items = tree.expressions if isinstance(tree, exp.Select) else []
    named = len(items) == 1 and isinstance(items[0], exp.Alias | exp.Column)
    if not named or not isinstance(tree, exp.Select) or tree.args.get("from_"):
        raise StatementError("A column of TRANSFORM is an expression with a name: expression AS name.", whole)
    item = items[0]
    if (inner := item.this) is not None and isinstance(inner, exp.Anonymous) and inner.name.upper() == "RATE":
        return read_rate(passage, item.alias_or_name)
    check_row_wise(item, whole)
    plain = isinstance(item, exp.Column)
    rest = passage.replaced([(call.start, call.end, "NULL") for call in calls])
    if calls and parse(f"SELECT {rest.text}").find(exp.Column) is None:
        raise StatementError(constant_alone(calls[0], item.alias_or_name), whole)
    reads = frozenset(column.parts[0].name.lower() for column in item.find_all(exp.Column))
    return WrittenItem(item.alias_or_name, passage.cut(0, expression_end(passage, plain)), calls, reads, plain, whole)


def constant_alone(call: ConstantCall, name: str) -> str:
    """Return why a column that reads nothing but a constant is refused, and what to write in its place."""
    value = call.argument.text
    why = f"TRANSFORM gives {name} the same value in every row: {call.name} is a constant of all rows."
    if call.name == "QUANTILES":
        return f"{why} Write bucketize({value}, QUANTILES({value}, {call.number})) AS {name} for the bucket of a row's value."
    return f"{why} Use it together with a row's value, or leave it out."


def read_rate(passage: Passage, name: str) -> WrittenItem:
    """Read `RATE(label, expression [, prior]) AS name`."""
    cursor = Cursor(passage, tokenize(passage))
    cursor.expect("RATE")
    arguments, place = list(split(cursor.parenthesised())), passage.position(0, passage.text)
    if not 2 <= len(arguments) <= 3:
        raise StatementError(f"RATE takes (label, expression [, prior]), got {len(arguments)} arguments.", place)
    label = Cursor(arguments[0], tokenize(arguments[0])).identifier("the label")
    prior = float(Cursor(arguments[2], tokenize(arguments[2])).number()) if arguments[2:] else None
    item = read_column(arguments[1].joined(passage.inserted(f" AS {quoted(name)}", len(passage.text))))
    return replace(item, rate=WrittenRate(label, prior), position=place)


def expression_end(passage: Passage, plain: bool) -> int:
    """Return where an item's expression ends: before its name, and AS."""
    tokens = tokenize(passage)
    if plain:
        return tokens[-1].end
    before = tokens[:-1]
    return before[-2].end if before[-1].text.upper() == "AS" else before[-1].end


def check_row_wise(item: exp.Expr, place: Position) -> None:
    """Refuse expressions that are not row-wise, or not deterministic."""
    from sqlglot import exp

    for node in item.walk():
        name = node.name if isinstance(node, exp.Anonymous) else ""
        if isinstance(node, exp.Window):
            raise StatementError("TRANSFORM sees one row at a time, and OVER reads several. Compute it in the query.", place)
        if isinstance(node, exp.Query):
            raise StatementError("TRANSFORM sees one row at a time, and not other tables. Join them in the query.", place)
        if name.lower() in VARYING or isinstance(node, exp.CurrentTimestamp | exp.CurrentDate | exp.Rand | exp.Randn):
            raise StatementError("TRANSFORM must give the same value whenever a row is read. Compute it in the query.", place)
        if name.lower() == "rate":
            raise StatementError(
                "RATE is a column of its own, RATE(label, expression [, prior]) AS name: its rates come from the examples "
                "before, from which no other column can be computed.",
                place,
            )
        if name.lower() in AGGREGATE_NAMES | EXPLODES or isinstance(node, exp.AggFunc):
            if name.upper() in CONSTANTS:
                continue
            raise StatementError(
                f"TRANSFORM sees one row at a time; the aggregates that it fits are {', '.join(CONSTANTS)}. Compute others in "
                "the query.",
                place,
            )


def calls_of(passage: Passage) -> Iterator[ConstantCall]:
    """Find the calls of constants.

    Raises:
        StatementError: one has other arguments than it takes, or has another inside.
    """
    cursor = Cursor(passage, tokenize(passage))
    while not cursor.at_end:
        first, token = cursor.index, cursor.tokens[cursor.index]
        cursor.index += 1
        if token.kind != "word" or token.text.upper() not in CONSTANTS or not cursor.peek("("):
            continue
        name, constant = token.text.upper(), CONSTANTS[token.text.upper()]
        inside = cursor.parenthesised()
        arguments = list(split(inside))
        place = cursor.span(first)
        if len(arguments) != (2 if constant.numbered else 1):
            wanted = "(x, number)" if constant.numbered else "(x)"
            raise StatementError(f"{name} of TRANSFORM takes {wanted}, got {len(arguments)} arguments.", place)
        number = Cursor(arguments[1], tokenize(arguments[1])).integer("a whole number") if constant.numbered else 0
        if constant.numbered and not 1 <= number - (name == "QUANTILES") < (MOST_QUANTILES if name == "QUANTILES" else 1 << 62):
            low, high = (2, f" to {MOST_QUANTILES}") if name == "QUANTILES" else (1, " and more")
            raise StatementError(f"{name} of TRANSFORM takes a number of {low}{high}, got {number}.", place)
        if next(calls_of(arguments[0]), None) is not None:
            raise StatementError(f"{name} of TRANSFORM has another constant inside. Compute it in the query.", place)
        yield ConstantCall(name, cursor.tokens[first].start, cursor.tokens[cursor.index - 1].end, arguments[0], number, place)


def entry(transform: Transform | None) -> dict[str, Any] | None:
    return None if transform is None else transform.entry


def shown(transform: Transform | None) -> Iterator[tuple[str, str | None]]:
    """Give what is computed, with its constants."""
    if transform is not None:
        yield "transform", transform.text
        for item in transform.items:
            yield f"transform {item.name}", item.sql


TRANSFORM: Clause[Written, Transform | None] = Clause(
    "TRANSFORM",
    "({expression AS name | column | * [EXCEPT (column, ...)]}, ...)",
    "Features computed from the columns of the query: a SELECT list of row-wise expressions, in which "
    "`QUANTILES(x, n)`, `MEAN(x)`, `STDDEV(x)`, `MIN(x)`, `MAX(x)`, `MODE(x)` and `VOCABULARY(x, least_count)` are constants "
    "of the training's rows. The model keeps it, and every reader of rows applies it, "
    "the service included: see [transform.md](transform.md).",
    read_transform,
    None,
    None,
    entry,
    Transform.of,
    always,
    shown,
)
