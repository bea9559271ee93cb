"""TRANSFORM applied: its constants computed on the training's query, and the list put around it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from ..engines.spark_sql.passage import Passage
from ..errors import StatementError, Subject
from ..input.transform import TAIL, Item, Transform
from ..quoting import literal
from ..spark_types import spark_type, type_words
from ..training.clauses.transform import CONSTANTS, MOST_WORDS, TRANSFORM, VALUE, ConstantCall, Written
from . import streams
from .query import Query

if TYPE_CHECKING:
    from ..training.plan import Plan
    from .context import StatementContext


FIT_ROWS = Subject("WITH", option="fit_rows")


class Applied(NamedTuple):
    """A training whose query has TRANSFORM around it: its plan, and its text, whose positions are the script's."""

    plan: Plan
    passage: Passage


def applied(
    plan: Plan, query: Passage, stream: streams.Streamed | None, written: Written | None, context: StatementContext
) -> Applied:
    """Put TRANSFORM, the statement's or the continued version's, around the query.

    Args:
        plan: has the version's list.
        query: of the statement.
        written: the statement's list, fitted now.

    Raises:
        StatementError: an expression cannot run, a column has a role, or a constant is NULL.
    """
    if plan.settings.fit_rows is not None and not any(column.calls for column in (written.columns if written else ())):
        raise StatementError(
            f"{FIT_ROWS} has no effect: no constants of TRANSFORM are computed. Leave it out.", subject=FIT_ROWS
        )
    fitted = plan.clause(TRANSFORM)
    if written is None and fitted is None:
        return Applied(replace(plan, query=query.text), streams.read_by(stream, query))
    passing = plan.roles.columns
    if fitted is None:
        assert written is not None  # else there is no list
        check_roles(written, passing)
        schema = schema_of(plan, query, context)
        check_columns(written, schema)
        fitted = fit(written, schema, query, stream, plan.settings.fit_rows, context)
    elif stream is None:
        with query.locating():
            names = context.engine.schema(query.text).names
            fitted.check(names, [item.name for item in fitted.items], f"version {plan.parent} of {plan.model}")
    plan, head = plan.having(TRANSFORM, fitted), query.inserted(fitted.head(passing), 0)
    around = head.joined(query, query.inserted(TAIL, len(query.text)))
    if stream is None:
        return Applied(replace(plan, query=around.text), around)
    cut = streams.stream_in(Query.of(around))
    assert cut is not None  # the query reads one
    return Applied(replace(plan, query=around.text, stream=cut.query), cut.passage)


def schema_of(plan: Plan, query: Passage, context: StatementContext) -> pa.Schema:
    """Return the columns of a training's query."""
    if plan.stream is None:
        with query.locating():
            return context.engine.schema(query.text)
    from ..training.segment import taken

    with taken(plan.stream, None, context.engine, context.models.warehouse, plan.settings) as (stream, segment):
        if segment is None:
            raise StatementError(
                f"Nothing to learn has arrived in {stream.name} yet. Train once something has.", query.restated(None)
            )
        return segment.scan.schema


def check_roles(written: Written, passing: Sequence[str]) -> None:
    """Refuse to compute a column that has a role: scoring does without it."""
    roles = {name.lower() for name in passing}
    for column in written.columns:
        if column.name.lower() in roles and not (column.plain and column.reads == {column.name.lower()}):
            raise StatementError(
                f"TRANSFORM makes features, and {column.name} has a role in the training. Compute it in the query.",
                column.position,
            )


def check_columns(written: Written, schema: pa.Schema) -> None:
    """Refuse a column that * gives too, and a column that the query lacks.

    Raises:
        StatementError: says what to write.
    """
    own = {name.lower() for name in schema.names}
    for column in written.columns:
        if written.left_out is not None and column.name.lower() in own - {name.lower() for name in written.left_out}:
            raise StatementError(
                f"TRANSFORM gives {column.name} twice: * has it too. Write * EXCEPT ({column.name}).", column.position
            )
        if lacking := sorted(column.reads - own):
            raise StatementError(
                f"TRANSFORM reads {', '.join(lacking)}, which the query does not return. It returns {', '.join(schema.names)}.",
                column.position,
            )


def fit(
    written: Written,
    schema: pa.Schema,
    query: Passage,
    stream: streams.Streamed | None,
    rows: int | None,
    context: StatementContext,
) -> Transform:
    """Compute the constants of a list; of the first rows alone where there is a number of them.

    All aggregates are one query; MODE and VOCABULARY are one each.
    """
    calls = [call for column in written.columns for call in column.calls]
    if calls and stream is not None:
        raise StatementError(
            f"{calls[0].name} is fitted on all rows, and a stream has no end. TRAIN on a table, and CONTINUE on the stream.",
            calls[0].position,
        )
    own = {field.name.lower(): field for field in schema}
    sample = query if rows is None else limited(query, rows)
    literals = {id(call): text for call, text in zip(calls, constants(calls, sample, context), strict=True)}
    items, parts = [], []
    for column in written.columns:
        edits = [(call.start, call.end, literals[id(call)]) for call in column.calls]
        made = column.passage.replaced(edits)
        parts.append(made)
        items.append(Item(column.name, made.text, tuple(own[name].name for name in sorted(column.reads))))
    if stream is None and parts:
        whole = query.inserted("SELECT ", 0).joined(
            joined(parts, ", ", query), query.inserted(" FROM (", 0), query, query.inserted(TAIL, len(query.text))
        )
        with whole.locating():
            context.engine.schema(whole.text)
    read = [field for name, field in own.items() if any(name in column.reads for column in written.columns)]
    types = {field.name: type_words(field.type) for field in read}
    return Transform(written.text, tuple(items), written.left_out, types)


def limited(query: Passage, rows: int) -> Passage:
    """Return the first rows of a query."""
    return query.inserted("SELECT * FROM (", 0).joined(query, query.inserted(f"{TAIL} LIMIT {rows}", len(query.text)))


def constants(calls: Sequence[ConstantCall], query: Passage, context: StatementContext) -> list[str]:
    """Return the literals of calls, in order."""
    found: dict[int, str] = {}
    calls = finite(calls, query, context)
    aggregates = [call for call in calls if CONSTANTS[call.name].aggregate is not None]
    if aggregates:
        parts = [aggregate_of(call, query) for call in aggregates]
        row = answer(joined(parts, ", ", query), query, "", context)
        for call, field in zip(aggregates, row.schema, strict=True):
            found[id(call)] = constant(call, row.column(field.name)[0].as_py(), field.type)
    for call in calls:
        groups = CONSTANTS[call.name].groups
        if groups is not None:
            part = call.argument.joined(query.inserted(f" AS {VALUE}, count(*) AS n", len(query.text)))
            where = f" WHERE {call.argument.text} IS NOT NULL GROUP BY {call.argument.text} {groups(call.number)}"
            rows = answer(part, query, where, context)
            kind, values = rows.schema.field(0).type, rows.column(0).to_pylist()
            if call.name == "MODE":
                found[id(call)] = constant(call, values[0] if values else None, kind)
                continue
            if len(values) > MOST_WORDS:
                raise StatementError(
                    f"{call.name} finds more than {MOST_WORDS:,} values. Ask for a greater count, or leave it out: the keys of "
                    "features need no vocabulary.",
                    call.position,
                )
            found[id(call)] = constant(call, values, pa.list_(kind))
    return [found[id(call)] for call in calls]


def finite(calls: Sequence[ConstantCall], query: Passage, context: StatementContext) -> list[ConstantCall]:
    """Return calls whose floating arguments are NULL where they are not finite: one NaN would be in every constant."""
    if not calls:
        return []
    values = [call.argument.joined(query.inserted(f" AS `{at}`", len(query.text))) for at, call in enumerate(calls)]
    whole = query.inserted("SELECT ", 0).joined(
        joined(values, ", ", query), query.inserted(" FROM (", 0), query, query.inserted(TAIL, len(query.text))
    )
    with whole.locating():
        kinds = context.engine.schema(whole.text).types
    return [
        replace(call, argument=finite_of(call.argument, query)) if pa.types.is_floating(kind) else call
        for call, kind in zip(calls, kinds, strict=True)
    ]


def finite_of(argument: Passage, query: Passage) -> Passage:
    """Return an expression that is NULL where another is not finite; NaN is greater than all numbers."""
    before, between = query.inserted("CASE WHEN abs(", 0), query.inserted(") < CAST('Infinity' AS DOUBLE) THEN ", 0)
    return before.joined(argument, between, argument, query.inserted(" END", 0))


def aggregate_of(call: ConstantCall, query: Passage) -> Passage:
    """Return an aggregate; errors in its argument are placed where it was written."""
    aggregate = CONSTANTS[call.name].aggregate
    assert aggregate is not None
    before, _, after = aggregate("\0", call.number).partition("\0")
    return query.inserted(before, 0).joined(call.argument, query.inserted(after, 0))


def joined(parts: Sequence[Passage], separator: str, query: Passage) -> Passage:
    between = query.inserted(separator, 0)
    return parts[0].joined(*(piece for part in parts[1:] for piece in (between, part)))


def answer(columns: Passage, query: Passage, rest: str, context: StatementContext) -> pa.Table:
    """Run SELECT columns FROM query, and what follows."""
    whole = query.inserted("SELECT ", 0).joined(
        columns, query.inserted(" FROM (", 0), query, query.inserted(f"{TAIL}{rest}", len(query.text))
    )
    with whole.locating():
        rows = context.engine.execute(whole.text)
    assert rows is not None  # a query answers
    return rows.rename_columns([str(index) for index in range(rows.num_columns)])


def constant(call: ConstantCall, value: Any, kind: pa.DataType) -> str:
    """Return a value as a literal that both engines read as the same.

    Raises:
        StatementError: it is NULL.
    """
    if value is None:
        why = "what it reads has no value in any row, NaN and infinities left out"
        raise StatementError(f"{call.name} is NULL: {why}.", call.position)
    return written_as(value, kind)


def written_as(value: Any, kind: pa.DataType) -> str:
    if pa.types.is_list(kind):
        if not value:
            return f"CAST(array() AS {spark_type(kind)})"
        return f"array({', '.join(written_as(element, kind.value_type) for element in value)})"
    if pa.types.is_floating(kind):
        exact = pa.types.is_float64(kind) and math.isfinite(value)
        return f"({value!r}D)" if exact else f"CAST({literal(str(value))} AS {spark_type(kind)})"
    if pa.types.is_string(kind):
        return literal(value)
    return f"CAST({literal(str(value))} AS {spark_type(kind)})"
