"""Vectors with ids of versions: written before anything is learned, or copied from the version before."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ....warehouse.checksums import FileEntry, VectorsEntry
from ....warehouse.manifest import Manifest
from ...engines.base import Engine
from ...errors import ModelError, StatementError
from ..columns import Columns
from .table import VALUES, Side, keys_file, places_file
from .writing import VECTORS, check_schema, length_of, write_side

if TYPE_CHECKING:
    from ....warehouse.files import Folders
    from ....warehouse.version import Version

Queries = Mapping[str, str]
"""By the name of vectors, of ids and vectors."""


def with_vectors(given: Queries, columns: Columns, engine: Engine, parent: Version | None, own: Folders) -> Columns:
    """Write the vectors that a statement gives, copy the others from the previous version, and return where all are.

    Args:
        own: the folders of the version that they are written for.

    Raises:
        StatementError: a query cannot run, or returns anything but ids and vectors.
        DataError: see write_side.
    """
    sides = []
    for side in columns.sides:
        folder = own.vectors_of(side.name)
        if side.name in given:
            sides.append(vectors_of(side, given[side.name], columns, engine, folder))
            continue
        assert parent is not None  # else each has a query
        parent.copy(f"vectors/{side.name}", folder)
        sides.append(replace(side, folder=str(folder.absolute())))
    return replace(columns, sides=tuple(sides))


def vectors_of(side: Side, query: str, columns: Columns, engine: Engine, folder: Path) -> Side:
    """Write the vectors of a query; see with_vectors."""
    with of_clause(side.name):
        check_schema(side, engine.schema(query))
        return write_side(side, engine.reader(query), columns.sources(side), folder)


def with_elements(given: Queries, columns: Columns, engine: Engine) -> Columns:
    """Return the columns with the lengths of vectors, as the first row of each query has them; nothing is written."""

    def elements(side: Side) -> int:
        if side.elements or side.name not in given:
            return side.elements
        with of_clause(side.name):
            check_schema(side, engine.schema(given[side.name]))
            rows = engine.reader(f"SELECT * FROM ({given[side.name]}) LIMIT 1").read_all()
        return length_of(rows.column(1).combine_chunks()) if rows.num_rows else 0

    return replace(columns, sides=tuple(replace(side, elements=elements(side)) for side in columns.sides))


@contextmanager
def of_clause(name: str) -> Iterator[None]:
    """Place errors of a query of VECTORS at the clause."""
    try:
        yield
    except StatementError as error:
        of = "" if error.subject is VECTORS else f"{VECTORS} {name}: "  # else the message names the clause itself
        raise StatementError(f"{of}{error.message}", subject=VECTORS) from error


def located(columns: Columns, manifest: Manifest, version: Folders) -> Columns:
    """Return the columns with the locations of a version's vectors.

    Raises:
        ModelError: the manifest lists not all of their files.
    """
    known = {vectors.name: vectors.elements for vectors in manifest.vectors}

    def there(side: Side) -> Side:
        folder, files = version.vectors_of(side.name), dict[str, FileEntry]()
        if manifest.files is not None and folder == version.folder / "vectors" / side.name:
            files = {Path(f.path).name: f for f in manifest.files if Path(f.path).parent == Path("vectors", side.name)}
            numbers = columns.sources(side)
            wanted = {VALUES, *map(keys_file, numbers), *map(places_file, numbers)}
            if files.keys() != wanted:
                raise ModelError(
                    f"The manifest in {version.folder} is damaged: of the vectors {side.name} it must list "
                    f"{', '.join(sorted(wanted))}, got {', '.join(sorted(files)) or 'none'}. Restore it from a backup."
                )
        return replace(side, elements=known[side.name], folder=str(folder.absolute()), files=files)

    return replace(columns, sides=tuple(map(there, columns.sides)))


def vectors_entries(given: Queries, columns: Columns, parent: Version | None) -> tuple[VectorsEntry, ...]:
    """Describe vectors as the manifest does."""
    queries = {} if parent is None else {vectors.name: vectors.query for vectors in parent.manifest.vectors}
    queries |= given
    return tuple(VectorsEntry(side.name, queries[side.name], side.slots, side.elements, side.hidden) for side in columns.sides)
