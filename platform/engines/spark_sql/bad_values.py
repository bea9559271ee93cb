"""A value that a cast cannot take: the error of it, and, once it came, where the value is.

An engine says of a failing cast which value it met. So the query is read once more, without what may fail in it, for the first
row that has this value where a cast, an operation or one of our functions takes it. Nothing is looked for before an error.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

import pyarrow as pa
from sqlglot import exp

from ...errors import Position, StatementError
from ...spark_types import type_words
from ...udf import FUNCTIONS
from ...udf.base import Function
from .lexer import find_string, find_word
from .parsing import parse_query

REMEDY = "Correct it, or write TRY_CAST, which gives NULL."
BAD = re.compile(rf"The value (?P<value>'.*'|\".*\") is no (?P<kind>.+)\. {re.escape(REMEDY)}", re.DOTALL)
BEGINS = re.compile(r"\b(?:SELECT|WITH)\b", re.IGNORECASE)
OWN = {function.name: function for function in FUNCTIONS}
MISTYPED = re.compile("Unimplemented type for cast|data type mismatch|takes an array got something else")
CASTS = frozenset(("BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DATE", "TIMESTAMP", "DECIMAL"))
MOST_ROWS = 50_000_000


class Reads(Protocol):
    """What is asked of an engine."""

    def schema(self, query: str) -> pa.Schema: ...

    def reader(self, query: str) -> pa.RecordBatchReader: ...


class BadValue(NamedTuple):
    """The expression that has the value, the number of its row, from 1, and where it stands in the text."""

    expression: exp.Expr
    row: int
    select: exp.Select


def bad_value(value: str, kind: str) -> str:
    """Return the message about a value that cannot be cast to a type."""
    return f"The value {value!r} is no {kind}. {REMEDY}"


def located(error: StatementError, text: str, engine: Reads) -> StatementError | None:
    """Return the error of a cast with the column and row of its value, or with the signature of the function of ours that was
    given another type; None where it is of something else, or cannot be found.

    Args:
        text: of the statement.
    """
    described = BAD.search(error.message)
    if described is None and MISTYPED.search(error.message) is None:
        return None
    query = query_in(text)
    if query is None:
        return None
    try:
        if described is None:
            return mistyped(query, text, engine)
        return placed_at(ast.literal_eval(described["value"]), described["kind"], query, text, engine)
    except (StatementError, ValueError, SyntaxError):  # what is read once more fails otherwise: the error stays as it is
        return None


def query_in(text: str) -> exp.Query | None:
    """Return the query of a statement, such as that after AS; None where it is not one that can be read."""
    for begin in BEGINS.finditer(text):
        try:
            return parse_query(text[begin.start() :])
        except StatementError:
            continue
    return None


def mistyped(query: exp.Query, text: str, engine: Reads) -> StatementError | None:
    """Return the error of the first call of a function of ours that takes no such types."""
    for select in query.find_all(exp.Select):
        for call, function in calls_in(select):
            arguments = call.expressions
            try:
                kinds = [field.type for field in engine.schema(probe(query, select, arguments, filtered=False))]
            except StatementError:
                continue  # an argument itself
            try:
                next(iter(engine.reader(f"{probe(query, select, [call], filtered=False)} LIMIT 1")), None)
            except StatementError:
                given = ", ".join(map(type_words, kinds))
                return StatementError(f"{function.name} takes {function.signature}, got ({given}).", place(text, function.name))
    return None


def placed_at(value: str, kind: str, query: exp.Query, text: str, engine: Reads) -> StatementError | None:
    """Return the error that says where a value is."""
    for filtered in (True, False):
        for select in query.find_all(exp.Select):
            try:
                found = first_row(value, query, select, filtered, engine)
            except StatementError:  # it has what fails without a cast that says so
                continue
            if found is not None:
                return worded(value, kind, found, filtered, text)
    return None


def worded(value: str, kind: str, found: BadValue, filtered: bool, text: str) -> StatementError:
    what, select = found.expression, found.select
    call = next((one for one in calls_in(select) if any(part is what for part in one[0].walk())), None)
    if isinstance(what, exp.Literal):
        if call is None:
            return StatementError(bad_value(value, kind), find_string(text, value))
        name, signature = call[1].name, call[1].signature
        return StatementError(f"{name} takes {signature}: the value {value!r} is no {kind}.", place(text, name))
    source = select.args.get("from_")
    table = source.this.sql("spark") if source is not None and not select.args.get("joins") else "the rows"
    where = " that WHERE leaves" if filtered and select.args.get("where") is not None else ""
    named = what.sql("spark")
    has = f"Column {what.name} has" if isinstance(what, exp.Column) else f"{named} is"
    message = f"{has} {value!r} in row {found.row:,} of {table}{where}, which is no {kind}. {REMEDY}"
    if call is not None:
        message = f"{call[1].name} takes {call[1].signature}. {message}"
    column = next(iter(what.find_all(exp.Column)), None)
    return StatementError(message, place(text, call[1].name if call is not None else column.name if column is not None else ""))


def first_row(value: str, query: exp.Query, select: exp.Select, filtered: bool, engine: Reads) -> BadValue | None:
    """Return the first row of what a SELECT reads where something that is cast, or a column, has a value."""
    asked = sorted(taken(select), key=unlikely)
    if not asked:
        return None
    texts = [exp.cast(tolerant(one), "string") for one in asked]
    row = 0
    for batch in engine.reader(probe(query, select, texts, filtered)):
        for number, column in enumerate(batch.columns):
            at = column.index(value).as_py()
            if at >= 0:
                return BadValue(asked[number], row + at + 1, select)
        row += batch.num_rows
        if row > MOST_ROWS:
            return None
    return None


def taken(select: exp.Select) -> Iterator[exp.Expr]:
    """Iterate over what may be cast in a SELECT, each once: what casts are of, columns, and literals that functions take."""
    seen = set()
    for node in select.find_all(exp.Cast, exp.Anonymous, exp.Column, exp.Literal):
        if node.parent_select is not select or (isinstance(node, exp.Anonymous) and not casts(node)):
            continue
        one = operand(node) if casts(node) else node
        if (isinstance(one, exp.Literal) and not one.is_string) or (
            isinstance(node.parent, exp.Select | exp.Alias) and one is node
        ):
            continue
        text = one.sql("spark")
        if text not in seen:
            seen.add(text)
            yield one


def unlikely(one: exp.Expr) -> int:
    """Return how unlikely it is that an expression is what was cast: a column that is, first."""
    parent = one.parent
    if parent is None or not casts(parent):
        return 2
    return 0 if isinstance(one, exp.Column) else 1


def casts(node: exp.Expr) -> bool:
    """Return whether an expression is CAST(x AS INT), or INT(x)."""
    called = isinstance(node, exp.Anonymous) and node.name.upper() in CASTS and len(node.expressions) == 1
    return called or type(node) is exp.Cast


def operand(node: exp.Expr) -> exp.Expr:
    """Return what is cast."""
    one: exp.Expr = node.expressions[0] if isinstance(node, exp.Anonymous) else node.this
    return one


def tolerant(expression: exp.Expr) -> exp.Expr:
    """Return an expression that gives NULL where a cast within fails."""

    def eased(node: exp.Expr) -> exp.Expr:
        if not casts(node):
            return node
        to = node.args["to"] if isinstance(node, exp.Cast) else exp.DataType.build(node.name)
        return exp.TryCast(this=operand(node), to=to, safe=True, requires_string=True)

    return expression.copy().transform(eased)


def probe(query: exp.Query, select: exp.Select, items: Sequence[exp.Expr], filtered: bool) -> str:
    """Return a query of other items over what a SELECT reads."""
    kept = {key: select.args[key].copy() for key in ("from_",) if select.args.get(key) is not None}
    lists = {key: [one.copy() for one in select.args.get(key) or ()] for key in ("joins", "laterals")}
    where = select.args.get("where")
    if filtered and where is not None:
        kept["where"] = tolerant(where)
    named = [exp.alias_(item.copy(), f"c{number}") for number, item in enumerate(items)]
    made = exp.Select(expressions=named, **kept, **lists)
    ctes = query.args.get("with_")
    if ctes is not None and select is query:
        made.set("with_", tolerant(ctes))
    return made.sql("spark")


def calls_in(select: exp.Select) -> Iterator[tuple[exp.Expr, Function]]:
    """Iterate over the calls of functions of ours."""
    for call in select.find_all(exp.Anonymous):
        if (function := OWN.get(call.name.lower())) is not None and call.parent_select is select:
            yield call, function


def place(text: str, word: str) -> Position | None:
    return find_word(text, word) if word else None
