"""Feature tables of the warehouse: what each is, and its versions, which appear atomically.

    <root>/features/<name>/v<N>/manifest.json   what CREATE FEATURES said, how many rows and keys it has, and its sources
    <root>/features/<name>/v<N>/rows/           its rows in order of key and time
    <root>/features/<name>/v<N>/image/          the same, as the service maps them

A version has the definition that it was made by, so that one of CREATE OR REPLACE takes its place with its rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ...warehouse.entries import SourceEntry, record
from ..histories.image import sums_of
from ..histories.kept import DEFINITION, MANIFEST, KeptVersions, are_sums, is_time
from ..typed import has_types

IMAGE, ROWS = "image", "rows"


@dataclass(frozen=True)
class FeaturesDefinition:
    """What CREATE FEATURES said.

    Attributes:
        query: of the rows, as written.
        key: the column by which rows are found.
        time: the column that says since when a row holds; None: a key has one row.
        values: the other columns.
    """

    name: str
    statement: str
    query: str
    key: str
    time: str | None
    values: tuple[str, ...]


@dataclass(frozen=True)
class FeaturesVersion:
    """A complete version.

    Attributes:
        rows, keys: how many it has.
        sources: what its query read.
        sums: the checksums of its image's files.
    """

    folder: Path
    number: int
    definition: FeaturesDefinition
    rows: int
    keys: int
    sources: tuple[SourceEntry, ...]
    created: str
    sums: Mapping[str, str]


class StoredFeatures(KeptVersions):
    """The feature tables of a warehouse."""

    def __init__(self, warehouse: Path) -> None:
        remedy = "REFRESH FEATURES {name} reads new rows, CREATE OR REPLACE FEATURES defines it anew."
        super().__init__(warehouse, "features", "FEATURES", "feature table", remedy)

    def definition(self, name: str) -> FeaturesDefinition:
        """Return what a feature table is: of its newest version, or of CREATE FEATURES where it has none.

        Raises:
            ModelError: there is none, or its file is damaged.
        """
        fields = self.defined(name)
        if (version := self.newest(name)) is not None:
            return version.definition
        if not is_definition(fields):
            raise self.damaged(self._folder(name) / DEFINITION, name)
        return record(FeaturesDefinition, fields)

    def newest(self, name: str) -> FeaturesVersion | None:
        """Return the newest version; None where none has been made.

        Raises:
            ModelError: its manifest is damaged.
        """
        if (last := self.last(name)) is None:
            return None
        folder, number, values = last
        sources = values.get("sources")
        if not (
            is_definition(values.get("definition"))
            and has_types(values.get("rows"), int)
            and has_types(values.get("keys"), int)
            and isinstance(sources, list)
            and all(isinstance(one, dict) and isinstance(one.get("kind"), str) for one in sources)
            and is_time(values.get("created"))
            and are_sums(values.get("sums"))
        ):
            raise self.damaged(folder / MANIFEST, name)
        made = {"definition": record(FeaturesDefinition, values["definition"]), "folder": folder, "number": number}
        return record(FeaturesVersion, {**values, **made, "sources": tuple(record(SourceEntry, one) for one in sources)})

    def create(self, definition: FeaturesDefinition, replace: bool) -> None:
        """Write the definition of a new feature table; one that is replaced keeps its own until a version takes its place.

        Raises:
            ModelError: there is one of its name.
        """
        if not (replace and definition.name in self.names()):
            self.define(definition.name, asdict(definition))

    def publish(
        self, definition: FeaturesDefinition, draft: Path, rows: int, keys: int, sources: Sequence[SourceEntry]
    ) -> FeaturesVersion:
        """Make a draft the newest version, in one step that survives a power cut; old versions are removed."""
        sums, read = sums_of(draft / IMAGE), [asdict(source) for source in sources]
        values = {"definition": asdict(definition), "rows": rows, "keys": keys, "sources": read, "sums": sums}
        folder, number, created = self.appear(definition.name, draft, values)
        return FeaturesVersion(folder, number, definition, rows, keys, tuple(sources), created, sums)


def is_definition(values: Any) -> bool:
    return isinstance(values, dict) and (
        all(isinstance(values.get(name), str) for name in ("name", "statement", "query", "key"))
        and has_types(values.get("time"), str | None)
        and has_types(values.get("values"), tuple[str, ...])
    )
