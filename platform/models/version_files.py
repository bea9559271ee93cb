"""Versions as folders of their own: EXPORT MODEL ... FORMAT version writes one, IMPORT MODEL and MERGE MODEL read it."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from ...warehouse.chains.links import ChainLink
from ...warehouse.chains.merge import merged
from ...warehouse.checksums import NUM_SLICES, FileEntry, VersionFile, collected, sums_of
from ...warehouse.draft import VECTORS
from ...warehouse.entries import StreamEntry
from ...warehouse.files import VersionFiles
from ...warehouse.manifest import DELTA, FORMAT, Manifest, read_json, read_manifest, write_manifest
from ...warehouse.models import Models
from ...warehouse.rows import copy, keys_of
from ...warehouse.version import Version
from .. import parts
from ..engines.targets import Target
from ..errors import ModelError
from ..objects import is_object
from ..options import written
from ..training.recipe import options_in
from .apply import among
from .exports import EXPORTS, Exported, Marker, check_no_more, check_replaced, exported

if TYPE_CHECKING:
    from numpy.typing import NDArray

VERSION, EXPORT, MANIFEST = "version", "export.json", "manifest.json"
OTHERS = ("dense", "candidates", "trials", "package", "tree", "calibration", "profile", "program")
MARKER = Marker(EXPORT, EXPORTS, "export of a model as a version")


class VersionRows(NamedTuple):
    """A version that rows are read from, in a warehouse or a folder.

    Attributes:
        name: for messages.
        manifest: of the version.
        folder: where its files are.
        links: what its rows are read from, see ChainLink.
    """

    name: str
    manifest: Manifest
    folder: Path
    links: Sequence[ChainLink]

    def rows(self, table: str, slices: range | None = None) -> Iterator[pa.RecordBatch]:
        """Read the rows of a table, those of some slices or all, in no order."""
        return merged(self.links, table, None, slices)

    def stored(self, name: str) -> list[VersionFile]:
        """Return the files of one of its folders."""
        files = self.manifest.files or ()
        return [VersionFile(self.folder / file.path, file) for file in files if Path(file.path).parent == Path(name)]


def rows_of(version: Version, name: str) -> VersionRows:
    """Return a version of a warehouse as one that rows are read from."""
    return VersionRows(name, version.manifest, version.folder, version.chain())


def export_version(version: Version, target: Target, base: Version | None, replace: bool) -> int:
    """Write a version as a folder that another warehouse imports, and return the rows of its first table there.

    Args:
        base: of the version are written only rows that differ from its own, and the keys of rows that it alone has.

    Raises:
        ModelError: the folder holds something else, or an export of another model that is not to be replaced.
    """
    manifest = dataclasses.replace(
        version.manifest, base=None, requires=tuple(one for one in version.manifest.requires if one != DELTA), splits=()
    )
    if names := target.names():
        check_no_more(target, names - {EXPORT, MANIFEST, "rows", "tombstones", VECTORS, *OTHERS})
        had = exported(target, MARKER)
        check_replaced(target, Exported(had["model"], VERSION, VERSION), Exported(manifest.model, VERSION, VERSION), replace)
    with target.replacing(last=EXPORT) as folder, target.storing(folder):
        kept = [file for file in manifest.files or () if not file.path.startswith(("rows/", "tombstones/"))]
        own = [file for file in manifest.files or () if file.path.startswith("rows/")]
        whole = base is None and not version.is_delta
        for file in [*kept, *own] if whole else kept:
            copy(VersionFile(version.folder / file.path, file), (folder / file.path).parent)
        if not whole:
            for table in manifest.tables:
                write_rows(version, base, VersionFiles(folder), table.name)
            own = list(collected(folder, ("rows", "tombstones")))
        write_manifest(folder, dataclasses.replace(manifest, files=(*own, *kept)))
        marker = {"format": FORMAT, EXPORTS: VERSION, "model": manifest.model, "version": version.number}
        based = None if base is None else base.manifest.identity
        (folder / EXPORT).write_text(json.dumps({**marker, "base": based}) + "\n", encoding="utf-8")
    first = f"rows/{manifest.tables[0].name}/" if manifest.tables else "/"
    return sum(file.rows for file in own if file.path.startswith(first)) if not whole else manifest.learned.rows


def write_rows(version: Version, base: Version | None, files: VersionFiles, name: str) -> None:
    """Write all rows of a table, or those that differ from a base's and the keys that are gone."""
    table = version.manifest.table(name)
    with files.writer(table) as writer:
        if base is None:
            for batch in version.rows(name):
                writer.write(batch)
            return
        before, seen = hashes_of(base, name), []
        for batch in version.rows(name):
            keys = keys_of(batch)
            seen.append(keys.copy())
            known, same = before
            there = among(keys, known)
            at = np.searchsorted(known, keys).clip(0, max(len(known) - 1, 0))
            changed = ~there
            changed[there] = same[at[there]] != row_hashes(batch)[there]
            if changed.any():
                writer.write(batch.filter(pa.array(changed)))
    gone = np.setdiff1d(before[0], np.concatenate([np.empty(0, np.uint64), *seen]), assume_unique=True)
    if len(gone):
        with files.tombstone_writer(table, 0, NUM_SLICES) as tombstones:
            tombstones.write(pa.record_batch([pa.array(gone.view(np.int64))], schema=tombstones.schema))


def hashes_of(version: Version, name: str) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Return the keys of a table, ascending, and a hash of each row."""
    keys, found = [np.empty(0, np.uint64)], [np.empty(0, np.uint64)]
    for batch in version.rows(name):
        keys.append(keys_of(batch).copy())
        found.append(row_hashes(batch))
    every = np.concatenate(keys)
    order = np.argsort(every)
    return every[order], np.concatenate(found)[order]


def row_hashes(batch: pa.RecordBatch) -> NDArray[np.uint64]:
    """Return a 64-bit hash of each row, of all its columns' bytes."""
    import xxhash

    parts_of = [bytes_of(column) for column in batch.columns]
    rows = np.concatenate([part.reshape(batch.num_rows, -1) for part in parts_of], axis=1)
    width, view = rows.shape[1], rows.tobytes()
    return np.fromiter((xxhash.xxh3_64_intdigest(view[i : i + width]) for i in range(0, len(view), width)), np.uint64)


def bytes_of(column: pa.Array) -> NDArray[np.uint8]:
    """Return a column's bytes, row by row."""
    if pa.types.is_fixed_size_binary(column.type):
        width = column.type.byte_width
        return np.frombuffer(column.buffers()[1], np.uint8)[column.offset * width : (column.offset + len(column)) * width]
    flat = column.flatten() if pa.types.is_fixed_size_list(column.type) else column
    return np.ascontiguousarray(flat.to_numpy(zero_copy_only=False)).view(np.uint8)


def opened(models: Models, model: str, place: Path) -> VersionRows:
    """Return the version in a folder that EXPORT MODEL ... FORMAT version wrote; of a delta, on top of its base in a model.

    Raises:
        ModelError: it is no such folder, it is damaged, or its base is not there.
    """
    target = Target(str(place))
    try:
        marker = read_json(place / EXPORT)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise ModelError(f"{place} is no {MARKER.kind}: EXPORT MODEL name TO 'path' FORMAT version writes one.") from error
    if marker.get(EXPORTS) != VERSION:
        raise ModelError(f"{place} is no {MARKER.kind}. Choose another path.")
    manifest = read_manifest(place)
    files = [file for file in manifest.files or () if file.path.startswith(("rows/", "tombstones/"))]
    links = [ChainLink(manifest.version, place, files)]
    if (base := marker.get("base")) is not None:
        found = version_of(models, (model,), str(base))
        if found is None:
            raise ModelError(
                f"{target} has what changed since a version that model {model} does not have. IMPORT that version first, or "
                "export all rows, without DELTA FROM VERSION."
            )
        links = [*found.chain(), *links]
    return VersionRows(str(place), manifest, place, links)


def version_of(models: Models, names: Sequence[str], identity: str) -> Version | None:
    """Return the newest version of some models that has the rows of an identity; None where there is none."""
    for name in dict.fromkeys(names):
        for version in reversed(models.present(name)):
            if version.manifest.identity == identity and version.manifest.status in ("ready", "held"):
                return version
    return None


def import_version(models: Models, name: str, place: str, statement: str) -> Manifest:
    """Make a version of a model of an exported one; all that is copied is compared with its checksums.

    Raises:
        ModelError: see opened; or a file is damaged, or nobody trusts the text of its network.
        StatementError: a package that it needs is not installed.
    """
    if is_object(place):
        raise ModelError(f"IMPORT MODEL reads a local folder, got {place}. Copy it to this machine.")
    source = opened(models, name, Path(place))
    check_text(source.manifest)
    # Streams and the names of WITH once are those of the other warehouse: what has their names here was not learned.
    begun = dataclasses.replace(
        source.manifest, statement=statement, parent=None, stream=StreamEntry(), once=(), finished=None, seconds=None
    )
    begun = begun.having_origin(copied=source.manifest.identity)
    with models.begin(name, begun.having_learned(examples=0)) as draft:
        delta = len(source.links) > 1
        for file in source.manifest.files or ():
            if not (delta and file.path.startswith(("rows/", "tombstones/"))):
                take(source.folder, file, draft.folder)
        if delta:
            for table in source.manifest.tables:
                with draft.writer(table) as writer:
                    for batch in source.rows(table.name):
                        writer.write(batch)
        draft.commit(draft.manifest)
        return draft.manifest


def take(source: Path, file: FileEntry, folder: Path) -> None:
    """Copy a file of a version, checked, with what is known of its blocks."""
    copy(VersionFile(source / file.path, file), (folder / file.path).parent)
    sums_of(folder / file.path).write_text(json.dumps({"rows": file.rows, "blocks": file.blocks}), encoding="utf-8")


def check_text(manifest: Manifest) -> None:
    """Require that a model's algorithm and operators are here, and that the text that it carries is trusted."""
    learned = () if manifest.algorithm.name == parts.ROWS_ALONE else (manifest.algorithm,)
    for kind, entries in ((parts.ALGORITHM, learned), (parts.OPERATOR, manifest.operators)):
        for entry in entries:
            options = options_in(manifest) if kind is parts.ALGORITHM else entry.options
            kind.options(kind.find(entry.name, None), written(options))


@contextlib.contextmanager
def reading(models: Models, model: str, named: tuple[str, int | None] | Path) -> Iterator[VersionRows]:
    """Give a version of a warehouse, or of a folder, whose files stay for the length of a block."""
    if isinstance(named, Path):
        yield opened(models, model, named)
        return
    with models.reading(*named) as version:
        yield rows_of(version, f"{named[0]} VERSION {version.number}")
