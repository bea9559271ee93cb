"""APPLY: updates of all rows while a training goes on, every so many batches or at the end of each pass."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from ... import parts
from ...engines.spark_sql.cursor import Cursor
from ...errors import StatementError, Subject
from .base import Clause, always
from .using import Given, read_function

if TYPE_CHECKING:
    from ...functions.base import Update
    from ...ps.compiled.table_programs import Programs


class AppliedGiven(NamedTuple):
    """What is written: updates, and after how many batches each, 0 at the end of every pass."""

    uses: tuple[Given, ...]
    every: tuple[int, ...]


class TimedUse(NamedTuple):
    """An update as a training uses it, and after how many batches, 0: at the end of every pass."""

    use: parts.FunctionUse
    every: int


Timed = tuple[TimedUse, ...]


def read(cursor: Cursor) -> AppliedGiven:
    cursor.expect("(")
    found = cursor.listed(lambda: (read_function(cursor, "an update"), read_every(cursor)))
    cursor.expect(")")
    return AppliedGiven(*zip(*found, strict=True))


def read_every(cursor: Cursor) -> int:
    cursor.expect("EACH")
    if cursor.accept("PASS"):
        return 0
    position = cursor.position()
    if cursor.next_kind != "number":
        raise cursor.expected("PASS or a number of batches")
    number = cursor.integer("PASS or a number of batches")
    if not number:
        raise StatementError("EACH expects a number of batches of at least 1.", position)
    if not cursor.accept("BATCHES") and not (number == 1 and cursor.accept("BATCH")):
        raise cursor.expected("BATCHES")
    return number


def timed(given: AppliedGiven) -> Timed:
    return tuple(
        TimedUse(parts.UPDATE.used(one.name.value, one.name.position, one.options), every)
        for one, every in zip(given.uses, given.every, strict=True)
    )


def to_json(value: Timed) -> list[dict[str, Any]]:
    return [{**one.use._asdict(), "every": one.every} for one in value]


def of_json(value: list[dict[str, Any]]) -> Timed:
    found = []
    for one in value:
        name, options, source, every = one["name"], one["options"], one["source"], one["every"]
        if not (isinstance(name, str) and isinstance(options, dict) and isinstance(source, str) and isinstance(every, int)):
            raise TypeError("an update has a name, options, a source and a number of batches")
        found.append(TimedUse(parts.FunctionUse(name, options, source), every))
    return tuple(found)


def shown(value: Timed) -> Iterator[tuple[str, str | None]]:
    for one in value:
        each = f"EACH {one.every} BATCHES" if one.every else "EACH PASS"
        given = ", ".join(f"{name} = {chosen}" for name, chosen in one.use.options.items())
        yield "apply", f"{one.use.name} ({given}) {each}"


APPLY: Clause[AppliedGiven, Timed] = Clause(
    "APPLY",
    "(update [(option = value, ...)] EACH {n BATCHES | PASS}, ...)",
    "Updates of all rows, applied by the shards while they learn: after every n batches, or when a pass is over. "
    "Each is applied once, also where the training is resumed, on another number of shards, too: see "
    "[functions.md](functions.md).",
    read,
    (),
    timed,
    to_json,
    of_json,
    always,
    shown,
)


def updates_in(
    value: Timed, programs: Mapping[str, Programs], slots: tuple[tuple[str, int], ...]
) -> list[tuple[dict[str, Update], int]]:
    """Return the updates of a training, by table, and after how many batches each.

    Raises:
        StatementError: an update is for versions, does not take its options, or cannot remove what it would.
    """
    from ...functions.base import RowTable
    from ...functions.made import made_update  # JAX takes long to load, and few statements have the clause

    found = []
    for use, every in value:
        part, options = parts.UPDATE.part_of(use), parts.UPDATE.options_of(use)
        subject, named = Subject.of_part("update", use.name), getattr(options, "table", "")
        if named and named not in programs:
            subject = subject._replace(option="table")
            raise StatementError(f"{subject} is {named!r}; the algorithm has {', '.join(programs)}.", subject=subject)
        first, tables = next(iter(programs)), {}
        for name in (named,) if named else tuple(programs):
            one = programs[name]
            made = made_update(part, options, RowTable(name, one.read_dims, slots, one.spec.init), use.name, bool(use.source))
            if made.once:
                message = f"{subject} is for versions: the next batch would undo it. ALTER MODEL ... APPLY it at the end."
                raise StatementError(message, subject=subject)
            if made.ends is not None and named and name != first:
                message = f"{subject} cannot remove rows of {name} alone in a training. Leave table out, or take zero."
                raise StatementError(message, subject=subject)
            tables[name] = made if name == first else made._replace(ends=None)
        found.append((tables, every))
    return found
