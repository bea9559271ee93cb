"""The options of a version as a table: what was given, and what was the default."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ...warehouse.entries import PartEntry
from ..errors import StatementError
from ..input.columns import columns_from
from ..options import Described, adapted, describe, written
from ..parts import ALGORITHM, OPERATOR, ROWS_ALONE, PartKind
from ..training.clauses.settings import Settings
from ..training.clauses.transform import TRANSFORM
from ..training.provenance.chosen import decided
from ..training.recipe import options_in

if TYPE_CHECKING:
    from ...algorithms.base import Layout
    from ...warehouse.manifest import Manifest

SCHEMA = pa.schema(
    [
        ("clause", pa.string()),
        ("part", pa.string()),
        ("option", pa.string()),
        ("value", pa.string()),
        ("default", pa.string()),
        ("given", pa.bool_()),
        ("chosen_by", pa.string()),
    ]
)

Row = dict[str, Any]


def options_of(manifest: Manifest) -> pa.Table:
    """Return a row for each option of a version's algorithm, operators and training, with who chose it."""
    by = {(one.clause, one.part, one.name): one.by for one in manifest.chosen}
    found = []
    for line in rows(manifest):
        known = by.get((line["clause"], line["part"] or "", line["option"]), "user" if line["given"] else "default")
        found.append({**line, "chosen_by": known})
    return pa.Table.from_pylist(found, SCHEMA)


def rows(manifest: Manifest) -> Iterator[Row]:
    if manifest.algorithm.name != ROWS_ALONE:
        yield from of_part(
            "USING", ALGORITHM, PartEntry(manifest.algorithm.name, options_in(manifest)), columns_from(manifest).layout
        )
    for operator in manifest.operators:
        yield from of_part("OPERATORS", OPERATOR, operator)
        if operator.on:
            yield row("OPERATORS", operator.name, "ON", operator.on, None, True)
    for slot in manifest.slots:
        if slot.members:
            yield row("CROSS", None, slot.name, slot.members, None, True)
    transform = TRANSFORM.kept(manifest)
    for item in transform.items if transform is not None else ():
        yield row("TRANSFORM", None, item.name, item.sql, None, True)
    settings = {option.name: option for option in describe(Settings)}
    ran = decided(manifest.sizes)
    for name, value in manifest.settings.items():
        default = settings[name].default if name in settings else None
        yield row("WITH", None, name, ran.get(name, value), default, plain(value) != plain(default))


def of_part(clause: str, kind: PartKind, part: PartEntry, layout: Layout | None = None) -> Iterator[Row]:
    """Yield the options of an algorithm or operator: declared ones, and given ones.

    Args:
        layout: of an algorithm, whose slots decide defaults.
    """
    declared: list[Described] = []
    given, usual = part.options, dict[str, Any]()
    with contextlib.suppress(StatementError):
        found = kind.find(part.name, None)
        declared = describe(found.options)
        if layout is not None:
            usual = dataclasses.asdict(adapted(kind.options(found, written(given)), layout))
    for option in declared:
        name = option.name.partition(" ")[0]  # a bound is declared with its sign
        default = option.default if name in given or option.default is not None else usual.get(name)
        yield row(clause, part.name, name, given.get(name, default), default, name in given)
    known = {option.name.partition(" ")[0] for option in declared}
    for name in given.keys() - known:
        yield row(clause, part.name, name, given[name], None, True)


def row(clause: str, part: str | None, option: str, value: Any, default: Any, given: bool) -> Row:
    written = {"value": literal(value), "default": literal(default)}
    return {"clause": clause, "part": part, "option": option, **written, "given": given}


def plain(value: Any) -> Any:
    """Return a value as JSON has it."""
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value


def literal(value: Any) -> str:
    """Return a value from JSON as SQL writes it."""
    if value is None or isinstance(value, bool):
        return {None: "NULL", True: "TRUE", False: "FALSE"}[value]
    if isinstance(value, list | tuple):
        return f"({', '.join(map(literal, value))})"
    if isinstance(value, str):
        lines = value.splitlines()
        return f"'{value}'" if len(lines) < 2 else f"'{lines[0]} ... ({len(lines)} lines)'"  # of a source text
    return str(value)
