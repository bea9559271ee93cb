"""Stored histories that options of an algorithm name: `history = (clicks.item, clicks.category)`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ...algorithms.blocks.searched import SEARCHED
from ...warehouse.entries import HistoryEntry
from ..errors import StatementError, Subject, suggestion
from ..histories.bound import BoundHistory
from ..histories.stored import StoredHistories
from ..input.kinds.events import PAST
from ..input.kinds.sequence import SEQUENCE
from ..options import Named, events_read
from ..training.clauses.column_roles import GROUP, TIME
from ..training.clauses.publish import PUBLISH
from ..training.plan import STORED, Plan

if TYPE_CHECKING:
    from .context import StatementContext
    from .fitting import Applied


def with_stored(plan: Plan, context: StatementContext) -> Plan:
    """Return a plan with the newest versions of the histories that it names.

    Raises:
        StatementError: a history has no such field, or no version; or it is read by a training that stays.
    """
    histories = StoredHistories(context.models.warehouse)
    names = histories.names()
    found: dict[str, list[str]] = {}
    for named, column in columns_of(plan):
        history, _, name = column.partition(".")
        subject = plan.roles.subject(named)
        if history.lower() not in names:
            if named.role == PAST.role:
                raise StatementError(
                    f"{subject} names {column}, and there is no stored history {history}.{suggestion(history, names)} CREATE "
                    "HISTORY makes one.",
                    subject=subject,
                )
            continue
        values = histories.definition(history.lower()).values
        if not name:
            if named.role != PAST.role and (plan.stream is not None or has(context.engine.schema(plan.query).names, column)):
                continue  # an array of the query; the roles refuse what is none
            fields = ", ".join(f"{history}.{value}" for value in values)
            raise StatementError(f"{subject} names the stored history {history}. Name its fields: {fields}.", subject=subject)
        own = {value.lower(): value for value in values}
        if name.lower() not in own:
            raise StatementError(
                f"{subject} names {column}, and the history {history} has the fields {', '.join(values)}."
                f"{suggestion(name, values)}",
                subject=subject,
            )
        found.setdefault(history.lower(), []).append(own[name.lower()])
    if events_read(plan.algorithm.options) and plan.clause(PUBLISH) is not None:
        raise StatementError(
            f"PUBLISH EVERY learns rows as they arrive, and {plan.algorithm.name} reads a user's rows together. Run CONTINUE "
            "WITH (until = 'available') every so often; with history = (...) it sees the events before.",
            subject=PUBLISH.subject,
        )
    if found and plan.clause(PUBLISH) is not None:
        raise StatementError(
            "PUBLISH EVERY learns while events arrive, and a stored history is read in the version that there was when the "
            "training began. Run CONTINUE WITH (until = 'available') every so often.",
            subject=PUBLISH.subject,
        )
    if events_read(plan.algorithm.options):
        check_whose(plan, histories, found)
        found = {name: [*fields, histories.definition(name).order] for name, fields in found.items()}
    bound = tuple(bind(histories, name, tuple(dict.fromkeys(fields))) for name, fields in found.items())
    return replace(plan, clauses={**plan.clauses, STORED: bound})


def reading(applied: Applied, context: StatementContext, before: tuple[HistoryEntry, ...] = ()) -> Applied:
    """Return a training with the histories that it names.

    Args:
        before: what the continued version read.

    Raises:
        StatementError: see with_stored.
    """
    plan = with_stored(applied.plan, context)
    for line in told(before, plan):
        context.reporter.note(line)
    return applied._replace(plan=plan)


def columns_of(plan: Plan) -> Iterator[tuple[Named, str]]:
    """Yield the columns that options of the algorithm name as sequences."""
    for named in plan.roles.named:
        if named.role in (SEQUENCE.role, SEARCHED, PAST.role):
            yield from ((named, column) for column in named.columns)


def check_whose(plan: Plan, histories: StoredHistories, found: Mapping[str, Sequence[str]]) -> None:
    """Refuse histories of other users or times than those of the rows that an algorithm reads as events.

    Raises:
        StatementError: names the clause; or several histories are named.
    """
    if len(found) > 1:
        raise StatementError(
            f"history names fields of {' and '.join(found)}: events before a row come from one stored history.",
            subject=Subject("USING", plan.algorithm.name, "history"),
        )
    for name in found:
        one = histories.definition(name)
        for clause, own, theirs, words in (
            (GROUP, plan.clause(GROUP), one.partition, "PARTITION BY"),
            (TIME, plan.clause(TIME), one.order, "ORDER BY"),
        ):
            if own is not None and own.lower() != theirs.lower():
                raise StatementError(
                    f"{clause.name} names {own}, and the history {name} is {words} {theirs}: give both one name with AS.",
                    subject=Subject(clause.name),
                )


def has(names: Sequence[str], column: str) -> bool:
    return column.lower() in {name.lower() for name in names}


def bind(histories: StoredHistories, name: str, fields: tuple[str, ...]) -> BoundHistory:
    """Return the newest version of a history, of which some fields are read."""
    one, version = histories.definition(name), histories.current(name)
    sums = dict(version.sums or {})
    entry = HistoryEntry(
        name, version.number, dict(version.position), sums, one.partition, one.order, fields, one.keep, one.within
    )
    return BoundHistory(entry, str(histories.warehouse.absolute()), pinned=True)


def bound_again(entries: tuple[HistoryEntry, ...], warehouse: Path) -> tuple[BoundHistory, ...]:
    """Return the versions of histories that a training read.

    Raises:
        ModelError: one is gone; says why.
    """
    histories = StoredHistories(warehouse)
    for entry in entries:
        histories.version(entry)
    return tuple(BoundHistory(entry, str(warehouse.absolute()), pinned=True) for entry in entries)


def told(before: tuple[HistoryEntry, ...], plan: Plan) -> Iterator[str]:
    """Yield what CONTINUE says of the histories that it reads."""
    known = {entry.name: entry.version for entry in before}
    for history in plan.histories:
        entry = history.entry
        if entry.name in known:
            yield f"History {entry.name}: version {entry.version}; the continued version read version {known[entry.name]}."
