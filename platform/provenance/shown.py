"""SHOW PROVENANCE OF MODEL: what a version was made from, with digests."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from ...warehouse.manifest import FILE
from ..display import cell
from ..errors import ModelError

if TYPE_CHECKING:
    from ...warehouse.catalog import Catalog
    from ...warehouse.entries import SourceEntry
    from ...warehouse.version import Version

PROCESSOR, BUILDS = ("cpu", "lanes", "xla_flags"), ("native", "lookups")


class MadeFrom(NamedTuple):
    """What a version was made from.

    Attributes:
        kind: version, statement, parent, source, option, package, build, processor or file.
        digest: XXH3 of sources, builds and files, SHA-256 of the rest; None where there is none.
    """

    kind: str
    name: str
    value: str | None
    digest: str | None = None


SCHEMA = pa.schema([(name, pa.string()) for name in MadeFrom._fields])


def shown(version: Version, models: Catalog) -> pa.Table:
    """Return a row for each fact."""
    return pa.Table.from_pylist([fact._asdict() for fact in facts(version, models)], SCHEMA)


def facts(version: Version, models: Catalog) -> Iterator[MadeFrom]:
    """Yield what a version was made from: itself, its statement, ancestors, sources, options, environment and files."""
    manifest = version.manifest
    yield MadeFrom("version", f"{manifest.model} v{version.number}", manifest.status, manifest_digest(version))
    yield MadeFrom("statement", "statement", manifest.statement, sha256(manifest.statement.encode()))
    yield from ancestors(version, models)
    for source in manifest.sources:
        yield MadeFrom("source", source.name, read_of(source), source.digest or None)
    for option in manifest.chosen:
        name = " ".join(part for part in (option.clause, option.part, option.name) if part)
        yield MadeFrom("option", name, f"{cell(option.value)} ({option.by})")
    for name, value in manifest.environment.items():
        kind = "processor" if name in PROCESSOR else "build" if name in BUILDS else "package"
        yield MadeFrom(kind, name, None if kind == "build" else value, value if kind == "build" else None)
    for file in manifest.files or ():
        blocks = [block.split(" ") for block in file.blocks]
        size = sum(int(one[1]) for one in blocks)
        digest = blocks[0][2] if len(blocks) == 1 else sha256("\n".join(file.blocks).encode())
        yield MadeFrom("file", file.path, f"{file.rows} rows, {size} bytes", digest)


def ancestors(version: Version, models: Catalog) -> Iterator[MadeFrom]:
    """Yield the versions that a version goes on from, its parent first, as far as they are there."""
    number = version.manifest.parent
    while number is not None:
        name = f"{version.manifest.model} v{number}"
        try:
            parent = models.find(version.manifest.model, number)
        except ModelError:
            yield MadeFrom("parent", name, "dropped")
            return
        yield MadeFrom("parent", name, parent.manifest.status, manifest_digest(parent))
        number = parent.manifest.parent


def manifest_digest(version: Version) -> str:
    """Return the SHA-256 of a version's manifest, which has the checksums of all its files."""
    return sha256((version.folder / FILE).read_bytes())


def read_of(source: SourceEntry) -> str:
    """Return what was read of a source, in words."""
    found = [source.kind]
    if source.snapshot:
        found.append(f"version {source.snapshot}")
    if source.files:
        found.append(f"{source.files} files, {source.bytes} bytes")
    if source.position:
        found.append(json.dumps(source.position, default=str, sort_keys=True))
    return ", ".join(found)


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
