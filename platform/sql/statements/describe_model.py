"""DESCRIBE MODEL: the properties of a version."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ...display import cell, plural
from ...errors import StatementError
from ...models.options import literal
from ...options import signs
from ...parts import ALGORITHM, OPERATOR, PartKind
from ...training.clauses import CLAUSES
from ...training.provenance.chosen import decided
from ..base import Statement
from ..cursor import Cursor
from ..versions import NamedVersion, read_version

if TYPE_CHECKING:
    from ....warehouse.entries import PartEntry, SlotEntry, SourceEntry
    from ....warehouse.manifest import Manifest
    from ....warehouse.version import Version
    from ..context import StatementContext

SCHEMA = pa.schema([("property", pa.string()), ("value", pa.string())])
PLAIN = ("created", "finished", "seconds", "error", "query")


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
        yield f"dense {dense.name}", f"float32{list(dense.shape)}{', only for training' if dense.train_only else ''}"
    for source in manifest.sources:
        yield f"source {source.name}", read_of(source)
    for history in manifest.histories:
        yield f"history {history.name}", history.text
    yield "classes", ", ".join(map(str, manifest.roles.classes)) or None
    yield from said(manifest)
    yield "parent", manifest.parent
    yield "examples", manifest.learned.examples
    yield "features", manifest.learned.rows
    for name in PLAIN:
        yield name, getattr(manifest, name)
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


def read_of(source: SourceEntry) -> str:
    """Return what a version read of a source, in words."""
    version = f"version {source.snapshot}, " if source.snapshot else ""
    size = f"{source.files:,} {plural('file', source.files)}, {source.bytes:,} bytes" if source.files else ""
    position = ", ".join(f"{name} {json.dumps(value, default=str)}" for name, value in source.position.items())
    return f"{source.kind}: {version}{size or position or 'known by name alone'}"


def said(manifest: Manifest) -> Iterator[tuple[str, str | None]]:
    """Give what clauses show, None where there is nothing, and what rounds of a training came to on rows held out."""
    for clause in CLAUSES:
        yield from clause.properties(manifest)
    learned = manifest.learned
    if learned.held_out is not None:
        yield "held out", f"{learned.held_out}: learned at the end; metrics are from before"
    for number, one in enumerate(learned.rounds if manifest.files is not None else (), 1):
        kept = ", kept" if one.best_pass == learned.best_pass else ""
        plateau = manifest.settings.get("plateau")
        rate = "" if plateau is None else f", at {plateau ** (number - 1):.3g} of the learning rates"
        judge = "recall" if plateau is None else manifest.settings.get("patience_by") or "the loss"
        yield f"round {number}", f"{judge} {one.recall:.6g} after pass {one.best_pass + 1}{rate}{kept}"


def settings(manifest: Manifest) -> Iterator[tuple[str, Any]]:
    for name, value in {**manifest.settings, **decided(manifest.sizes)}.items():
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
