"""A version of a model as it is on disk."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ..platform.errors import ModelError
from .chains.links import WHOLE, ChainLink, chain, whole_files
from .chains.merge import ChainStep, changed, merged, replayed
from .checksums import NUM_SLICES, VersionFile
from .files import Folders
from .manifest import Manifest
from .package import FILE
from .rows import check_parts, copy, read_rows, reading, stored_parts
from .trainings.checkpoints import Checkpoint, checkpoints_of
from .trainings.progress import read_progress
from .trainings.segments import read_passed

if TYPE_CHECKING:
    from ..platform.ps._native import Store


@dataclass(frozen=True)
class Version(Folders):
    """A version as it is on disk now.

    Attributes:
        folder: where it is.
        manifest: with `interrupted` where a training died.
        served: whether statements that name no version use it.
        replaced: by name, vectors with ids that a statement replaces.
    """

    folder: Path
    manifest: Manifest
    served: bool
    replaced: tuple[tuple[str, Path], ...] = ()

    def vectors_of(self, name: str) -> Path:
        """See Folders."""
        return dict(self.replaced).get(name) or super().vectors_of(name)

    @property
    def number(self) -> int:
        return self.manifest.version

    @property
    def position(self) -> Mapping[str, Mapping[str, Any]]:
        """How far it and its ancestors have read each stream, by its name: see Manifest, and segments.PASSED."""
        return {**self.manifest.stream.position, **read_passed(self.folder)}

    @property
    def progress(self) -> str | None:
        """The progress of an unfinished training, in words; None where it has ended."""
        manifest = self.manifest
        if manifest.status not in ("training", "interrupted"):
            return None
        newest: Checkpoint | None = None
        try:
            newest = newest_checkpoint(manifest, self.folder)
            resumable = self._resumable(newest)
        except ModelError:
            resumable = "its checkpoints cannot be reached from here"
        text = reached(read_progress(self.folder), newest, manifest)
        return text if manifest.status == "training" else f"{text}; {resumable}"

    def _resumable(self, newest: Checkpoint | None) -> str:
        if not self.manifest.begun:
            return "it cannot be resumed"
        return "RESUME MODEL begins again" if newest is None else f"RESUME MODEL continues after {newest.examples:,}"

    @property
    def is_delta(self) -> bool:
        """Whether it is a delta: it has only the rows that it changed."""
        return self.manifest.base is not None

    def chain(self) -> list[ChainLink]:
        """Return what its rows are read from; the first has all rows, and it is all where this is no delta.

        Raises:
            ModelError: one of them is missing or damaged.
        """
        return chain(self.folder, self.manifest)

    def changed(self, links: Sequence[ChainLink], table: str, seen: Store) -> Iterator[pa.RecordBatch]:
        """Read the newest rows of a table that some versions of its chain have changed; see chains.merge.changed."""
        return changed(links, self.manifest.table(table).name, None, range(NUM_SLICES), seen)

    def files(self, table: str) -> list[Path]:
        """Return the Parquet files of a table's rows, checked, of the first of its chain: an engine reads them by itself.

        Raises:
            ModelError: no such table, a damaged file, or a version that was dropped meanwhile.
        """
        parts = self._parts(table, self.chain()[0] if self.is_delta else None)
        for part in parts:
            with reading(part.path):
                part.check()
        return [part.path for part in parts]

    def rows(self, table: str, columns: Sequence[str] | None = None, slices: range | None = None) -> Iterator[pa.RecordBatch]:
        """Read the rows of a table, 65,536 or fewer at a time; all columns, or those named, in that order.

        Args:
            slices: a run of slices, whose rows are among those that are read; None: all.

        Raises:
            ModelError: no such table, a damaged file, or a version that was dropped meanwhile.
        """
        if not self.is_delta:
            return read_rows(self._parts(table), columns, slices)
        links = self.chain()
        self._parts(table, links[0])
        return merged(links, table, columns, slices)

    def replayed(self, tables: Mapping[str, Sequence[str] | None], slices: range | None) -> Iterator[ChainStep]:
        """Read the rows of tables as `rows` does, for readers that keep them by key anyway; see chains.merge.replayed."""
        if not self.is_delta:
            return (
                ChainStep(name, batch, False) for name, wanted in tables.items() for batch in self.rows(name, wanted, slices)
            )
        links = self.chain()
        for name in tables:
            self._parts(name, links[0])
        return replayed(links, tables, slices)

    def trial_rows(self) -> Iterator[pa.RecordBatch]:
        """Read the trial rows of features without a row, as `rows` reads the first table's.

        Raises:
            ModelError: a file is damaged.
        """
        return read_rows(self.stored("trials"), None, None)

    def stored(self, name: str) -> list[VersionFile]:
        """Return the files of a folder, none where it has none: `dense`, `candidates`, `trials`, `package`, `tree`,
        `calibration`, `profile`, `rows/<table>`, `vectors/<name>`.

        Raises:
            ModelError: the folder lies elsewhere.
        """
        folder = self._own(*name.split("/"))
        if self.manifest.files is None:
            return [VersionFile(folder / FILE, None)] if name == "package" else stored_parts(folder)
        return [
            VersionFile(self.folder / file.path, file) for file in self.manifest.files if Path(file.path).parent == Path(name)
        ]

    def everything(self) -> list[VersionFile]:
        """Return all files of its data, including compacted rows."""
        names = [f"{kind}/{table.name}" for kind in ("rows", "tombstones") for table in self.manifest.tables]
        names += [f"vectors/{vectors.name}" for vectors in self.manifest.vectors]
        names += ["dense", "candidates", "trials", "package", "tree", "calibration", "profile", "program"]
        own = [part for name in names for part in self._present(name)]
        whole = whole_files(self.folder) or ()
        return [*own, *(VersionFile(self.folder / WHOLE / file.path, file) for file in whole)]

    def beneath(self, all_of_them: bool = False) -> list[VersionFile]:
        """Return the files of other versions that it is read from: of dropped versions, or of all.

        Raises:
            ModelError: one of them is missing or damaged.
        """
        links = [link for link in self.chain() if all_of_them or link.is_dropped] if self.is_delta else []
        return [VersionFile(link.folder / file.path, file) for link in links for file in link.files]

    def copy(self, name: str, folder: Path) -> None:
        """Copy the files of one of its folders, see `stored`, as far as there are any; what is copied is checked.

        Raises:
            ModelError: a file is damaged, or the disk is full or not writable.
        """
        for part in self._present(name):
            copy(part, folder)

    def _present(self, name: str) -> list[VersionFile]:
        """Return the files of a folder, as `stored` does; whether there is a package, a manifest without files does not say."""
        return [] if name == "package" and self.manifest.files is None and not self.package.exists() else self.stored(name)

    def _parts(self, table: str, link: ChainLink | None = None) -> list[VersionFile]:
        """Return the files of a table's rows; of a version of its chain where this is a delta."""
        folder = self.rows_of(self.manifest.table(table).name)
        parts = self.stored(f"rows/{table}") if link is None or not self.is_delta else link.parts(f"rows/{table}")
        check_parts(folder, parts)
        return parts


def reached(lines: Sequence[Mapping[str, Any]], newest: Checkpoint | None, manifest: Manifest) -> str:
    """Return a training's progress in words: by its lines of progress, or its newest checkpoint."""
    batches = max((line["batch"] for line in lines if "batch" in line), default=0)
    if any("objective" in line for line in lines):
        return f"{batches} iterations over all examples"
    examples = max(batches * manifest.sizes.batch_size, 0 if newest is None else newest.examples)
    if manifest.sizes.examples is None:
        return f"{examples:,} examples"
    return f"{min(examples, manifest.sizes.examples):,} of {manifest.sizes.examples:,} examples"


def newest_checkpoint(manifest: Manifest, folder: Path) -> Checkpoint | None:
    """Return the newest checkpoint of a version that looks whole, if there is one."""
    found = checkpoints_of(manifest, folder).complete()
    return next((one for one in found if isinstance(one, Checkpoint)), None)
