"""Bound parameters: `?` by order, `:name` by name. Each value replaces its token as a literal of its type."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from ..display import plural
from ..engines.spark_sql.lexer import Token
from ..engines.spark_sql.passage import Passage
from ..errors import StatementError, suggestion
from ..quoting import literal

Parameters = Sequence[Any] | Mapping[str, Any]
Edit = tuple[int, int, str]
VALUES = "None, True, False, an int, float, Decimal, str, bytes, date, datetime, or a list of these"
GIVE = "Give a value for each ?, in their order, as in session.sql(statement, [1, 'a'])."
INT64 = range(-(2**63), 2**63)


def bound(passage: Passage, tokens: Sequence[Token], parameters: Parameters | None) -> list[Edit]:
    """Return the edits that put values in place of their tokens: start, end and text of each, in order.

    Args:
        parameters: a sequence for `?`, a mapping for `:name`; None where there are none: a `:name` is then left to the engine.

    Raises:
        StatementError: a value is missing or left over, or has no literal.
    """
    if parameters is None:
        return by_order(passage, tokens, ())
    if isinstance(parameters, str | bytes) or not isinstance(parameters, Sequence | Mapping):
        raise StatementError(f"Parameters are a list for ?, or a dict for :name; got {type(parameters).__name__}.")
    return by_name(passage, tokens, parameters) if isinstance(parameters, Mapping) else by_order(passage, tokens, parameters)


def by_order(passage: Passage, tokens: Sequence[Token], parameters: Sequence[Any]) -> list[Edit]:
    marks = [token for token in tokens if token.text == "?"]
    if len(marks) != len(parameters):
        position = passage.position(marks[len(parameters)].start, "?") if len(marks) > len(parameters) else None
        has, came = (
            f"{len(found)} {plural(word, len(found))}" for found, word in ((marks, "parameter"), (parameters, "value"))
        )
        verb = "were" if len(parameters) != 1 else "was"
        raise StatementError(f"The statement has {has} ?, and {came} {verb} given. {GIVE}", position)
    return [
        (mark.start, mark.end, written(passage, mark.start, "?", value)) for mark, value in zip(marks, parameters, strict=True)
    ]


def by_name(passage: Passage, tokens: Sequence[Token], parameters: Mapping[str, Any]) -> list[Edit]:
    if mark := next((token for token in tokens if token.text == "?"), None):
        position = passage.position(mark.start, "?")
        raise StatementError("A dict gives values to :name, not to ?. Write :name in its place, or give a list.", position)
    edits, used = [], set()
    for start, name in names(tokens):
        if name not in parameters:
            position = passage.position(start, f":{name}")
            raise StatementError(f"The parameter :{name} has no value.{suggestion(name, parameters)}", position)
        used.add(name)
        edits.append((start, start + 1 + len(name), written(passage, start, f":{name}", parameters[name])))
    if left := [f":{name}" for name in parameters if name not in used]:
        raise StatementError(f"The statement has no parameter {', '.join(left)}. Leave the value out, or name it there.")
    return edits


def names(tokens: Sequence[Token]) -> Iterator[tuple[int, str]]:
    """Find each `:name`: a colon before a word without space, and not right behind a name, a bracket or another colon, as in
    `a:INT`, `a[1:n]` and `x::INT`."""
    for index, token in enumerate(tokens[:-1]):
        after, before = tokens[index + 1], tokens[index - 1] if index else None
        behind = before is not None and before.end == token.start and (before.kind != "symbol" or before.text in "])}:")
        if token.text == ":" and after.kind == "word" and after.start == token.end and not behind:
            yield token.start, after.text


def written(passage: Passage, start: int, shown: str, value: Any) -> str:
    """Return a value as a literal that is safe in any context."""
    text = literal_of(value.item() if type(value).__module__ == "numpy" and hasattr(value, "item") else value)
    if text is None:
        message = f"A parameter is {VALUES}; got {type(value).__name__}. Register a frame with session.register."
        raise StatementError(message, passage.position(start, shown))
    return f" {text} "


def literal_of(value: Any) -> str | None:
    """Return a value as Spark SQL writes it; None where it has no literal. A datetime without a zone is in UTC."""
    match value:
        case None:
            return "NULL"
        case bool():
            return "TRUE" if value else "FALSE"
        case int():
            return str(value) if value in INT64 else f"{value}BD" if abs(value) < 10**38 else None
        case float():
            return f"{value!r}D" if math.isfinite(value) else f"CAST('{value}' AS DOUBLE)"
        case Decimal():
            return f"{value:f}BD" if value.is_finite() else None
        case str():
            return literal(value)
        case bytes():
            return f"X'{value.hex()}'"
        case datetime():
            at = value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
            return f"TIMESTAMP'{at.replace(tzinfo=None).isoformat(' ')}Z'"
        case date():
            return f"DATE'{value.isoformat()}'"
        case list() | tuple():
            items = [literal_of(item) for item in value]
            return None if None in items else f"array({', '.join(map(str, items))})"
    return None
