"""Compaction: all rows of a delta version, written beside it, so that it and later versions are read faster; docs/format.md has
the arithmetic."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from ...platform.errors import ModelError
from ..checksums import NUM_SLICES, collected, run_of
from ..durable import storing, sync, sync_tree
from ..files import VersionFiles
from ..folders import trash_whole
from ..rows import keys_of, rows_schema
from ..version import Version
from .links import FILES, WHOLE, Ancestor, ChainLink, files_text, lineage, rows_in, whole_files

NEWEST_SHARE, NEWEST_LINKS = 0.2, 32
"""The newest version is compacted when so many changed rows, as a share of all rows, or so many versions follow the last full
one."""
OLDER_SHARE, OLDER_LINKS = 2.75, 275
"""The same for any other version."""
PART_ROWS = 1 << 19


def rows_after(links: Sequence[ChainLink]) -> float:
    """Return how many changed rows a chain has, as a share of all rows."""
    return sum(link.rows for link in links[1:]) / max(links[0].rows, 1)


def is_due(links: Sequence[ChainLink]) -> bool:
    """Return whether the newest version is to be compacted."""
    return rows_after(links) > NEWEST_SHARE or len(links) > NEWEST_LINKS


def write_whole(version: Version, folder: Path, stopped: Callable[[], bool]) -> bool:
    """Write all rows of a version, in order of key, to a folder; return whether it came to the end.

    Args:
        stopped: whether to leave it.

    Raises:
        ModelError: a file is damaged, or the disk is full.
    """
    files = VersionFiles(folder)
    for table in version.manifest.tables:
        schema, parts = rows_schema(table), version.chain()[0].parts(f"rows/{table.name}")
        rows = sum(part.file.rows for part in parts if part.file is not None)
        count = min(NUM_SLICES, 1 + rows // PART_ROWS)
        bounds = [NUM_SLICES * i // count for i in range(count + 1)]
        for number, (start, stop) in enumerate(itertools.pairwise(bounds)):
            if stopped():
                return False
            found = pa.Table.from_batches(version.rows(table.name, None, range(start, stop)), schema).combine_chunks()
            with files.writer(table, number, run_of(rows)) as writer:
                for batch in found.to_batches():
                    writer.write(batch.take(pa.array(np.argsort(keys_of(batch), kind="stable"))))
    return True


def adopt(folder: Path, version: Path) -> None:
    """Give a version all its rows, written in a folder of the same filesystem, in one step.

    Raises:
        ModelError: the version is gone, or has them already; or the disk is full.
    """
    with storing(folder):
        text = files_text(collected(folder, ("rows",)))
        (folder / FILES).write_text(text, encoding="utf-8")
        sync_tree(folder)
    with storing(version):
        folder.rename(version / WHOLE)
        sync(version)


class LineageStep(NamedTuple):
    """A version of a lineage, oldest first: how many rows it changed, and how many it has where all of them lie there."""

    at: Ancestor
    changed: int
    all: int | None


def drop_needless(newest: Version) -> list[int]:
    """Remove compacted rows that no version needs for fast reads, and that nobody reads.

    Returns:
        The numbers of their versions.
    """
    found = steps_of(newest)
    wholes = [i for i, one in enumerate(found) if one.all is not None]
    dropped, before = [], 0
    for place in range(1, len(wholes) - 1):
        first, here, after = wholes[before], wholes[place], wholes[place + 1]
        between = found[first + 1 : after]
        rows = sum(one.changed for one in between)
        readers = [one.at.folder for one in found[here:]]  # later ones, too, if they began before the next one existed
        few = rows <= OLDER_SHARE * max(found[first].all or 0, 1) and len(between) <= OLDER_LINKS
        if few and found[here].at.manifest.base is not None and trash_whole(found[here].at.folder, readers):
            dropped.append(found[here].at.number)
        else:
            before = place
    return dropped


def steps_of(newest: Version) -> list[LineageStep]:
    """Return the versions that a version goes back to, as far as they exist."""
    found = []
    try:
        for one in lineage(newest.folder, newest.manifest):
            own, whole = rows_in(one.manifest.files or ()), whole_files(one.folder)
            made = None if whole is None else rows_in(whole)
            found.append(LineageStep(one, own, own if one.manifest.base is None else made))
    except ModelError:  # earlier ones are not needed
        pass
    return found[::-1]
