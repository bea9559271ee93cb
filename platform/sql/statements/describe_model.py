"""DESCRIBE MODEL: the properties of a version."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ...display import cell
from ...errors import StatementError
from ...input.transform import Transform
from ...models.options import chosen, literal
from ...options import signs
from ...parts import ALGORITHM, OPERATOR, PartKind
from ...training.metrics.validate import Validate
from ..base import Statement
from ..cursor import Cursor
from ..versions import NamedVersion, read_version

if TYPE_CHECKING:
    from ....warehouse.manifest import Manifest, PartEntry, SlotEntry
    from ....warehouse.version import Version
    from ..context import StatementContext

SCHEMA = pa.schema([("property", pa.string()), ("value", pa.string())])
PLAIN = ("weight", "time", "group", "parent", "examples", "rows", "created", "finished", "seconds", "error", "query", "xpsql")


@dataclass(frozen=True)
class DescribeModel:
    """Properties of a version, one row each."""

    named: NamedVersion

    def run(self, context: StatementContext) -> pa.Table:
        rows = [p for p in properties(context.models.find(*self.named)) if p[1] is not None]
        return pa.table([[name for name, _ in rows], [readable(value) for _, value in rows]], schema=SCHEMA)


def readable(value: Any) -> str:
    """Return a value as tables show it; a text keeps its lines."""
    return value if isinstance(value, str) else cell(value)


def properties(version: Version) -> Iterator[tuple[str, Any]]:
    """Give the names and values of a version's properties; those whose value is None are not shown."""
    manifest = version.manifest
    yield "model", manifest.model
    yield "version", manifest.version
    yield "status", manifest.status
    yield "served", "yes" if version.served else "no"
    yield from parts(manifest)
    for slot in manifest.slots:
        yield f"slot {slot.name}", kind(slot)
    for dense in manifest.dense:
        yield f"dense {dense.name}", f"float32{list(dense.shape)}{', for training alone' if dense.train_only else ''}"
    yield "label", (", ".join(manifest.labels) + (" late" if manifest.late else "")) or manifest.positive
    yield "items", manifest.items
    yield "classes", ", ".join(map(str, manifest.classes)) or None
    yield "cross", ", ".join(manifest.crosses) or None
    yield from transform(manifest)
    yield "ignored", ", ".join(manifest.ignore) or None
    for name in PLAIN:
        yield "features" if name == "rows" else name, getattr(manifest, name)
    yield from gate(manifest)
    yield from settings(manifest)
    yield "environment", ", ".join(f"{name} {value}" for name, value in manifest.environment.items()) or None
    for name, value in manifest.metrics.items():
        yield f"metric {name}", value
    for name, value in manifest.evaluation.items():
        yield f"evaluation {name}", value
    yield "folder", version.folder


def parts(manifest: Manifest) -> Iterator[tuple[str, str]]:
    yield "algorithm", written(ALGORITHM, manifest.algorithm)
    for number, operator in enumerate(manifest.operators, 1):
        yield f"operator {number}", written(OPERATOR, operator)


def transform(manifest: Manifest) -> Iterator[tuple[str, str]]:
    """Give what TRANSFORM computes, with its constants."""
    if (found := Transform.of(manifest.transform)) is None:
        return
    yield "transform", found.text
    for item in found.items:
        yield f"transform {item.name}", item.sql


def gate(manifest: Manifest) -> Iterator[tuple[str, str | None]]:
    """Give the clauses EVALUATE, VALIDATE and RELEASE, None where there is none, and what VALIDATE's rows say of rounds."""
    evaluate = manifest.evaluate
    if evaluate is not None:
        by = f" BY {evaluate['by']}" if evaluate["by"] else ""
        yield "evaluate", f"EVERY {evaluate['every']} BATCHES ON {evaluate['on']} BATCHES{by}"
    yield "validate", Validate(**manifest.validate).text if manifest.validate is not None else None
    if manifest.held_out is not None:
        yield "held out", f"{manifest.held_out}: learned after they had judged, so metrics are those before"
    for number, one in enumerate(manifest.rounds if manifest.files is not None else (), 1):
        kept = ", kept" if one.best_pass == manifest.best_pass else ""
        yield f"round {number}", f"recall {one.recall:.6g} after pass {one.best_pass + 1}{kept}"
    yield "release when", manifest.release


def settings(manifest: Manifest) -> Iterator[tuple[str, Any]]:
    for name, value in {**manifest.settings, **chosen(manifest)}.items():
        yield f"setting {name}", literal(value) if isinstance(value, list | tuple) else value


def written(kind: PartKind, part: PartEntry) -> str:
    """Return an algorithm or operator as the statement wrote it: `ftrl(alpha = 0.1)`."""
    sign: dict[str, str] = {}
    with contextlib.suppress(StatementError):  # of a package that is not installed here
        sign = signs(kind.find(part.name, None).options)
    options = ", ".join(f"{name} {sign.get(name, '=')} {literal(value)}" for name, value in part.options.items())
    on = f" ON {part.on[0]}" if len(part.on) == 1 else f" ON ({', '.join(part.on)})" if part.on else ""
    return f"{part.name}({options}){on}" if options else f"{part.name}{on}"


def kind(slot: SlotEntry) -> str:
    shared = f", shares the rows of {slot.share}" if slot.share else ""
    crossed = f", crosses {', '.join(slot.members)}" if slot.members else ""
    return f"{slot.kind}, {slot.type}{shared}{crossed}" if slot.type else f"{slot.kind}{shared}"


def parse(cursor: Cursor) -> DescribeModel:
    return DescribeModel(read_version(cursor))


DESCRIBE_MODEL = Statement(
    "DESCRIBE MODEL",
    "DESCRIBE MODEL name [VERSION n]",
    "Show a version's slots, options, operators, settings and metrics.",
    parse,
)
