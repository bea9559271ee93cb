"""Side tables: vectors with ids as files that stay open, and which of them the features of a batch have.

values.f32        float32[n, elements]
keys-<s>.u64      uint64[n], the keys of the ids as values of the slot with number s, ascending
places-<s>.i32    int32[n], the vector of each
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ....algorithms.chunk import Chunk
from ....algorithms.inputs import SideSlots, SideVectors
from ....warehouse.checksums import FileEntry, VersionFile, sealed, sums_of
from ....warehouse.mapped import Bytes, cut_off, verified
from ....warehouse.rows import reading
from ...errors import ModelError
from ...ps.compiled.ladder import Ladder

VALUES = "values.f32"
NAMES = re.compile(r"values\.f32|keys-\d+\.u64|places-\d+\.i32")
NONE, LACKING, FIRST = 0, 1, 2
"""Codes: of features whose slots have no vectors, of features that lack theirs, and of the first vector."""

Codes = NDArray[np.int32]


@dataclass(frozen=True)
class Side:
    """Vectors with ids, as a model has them.

    Attributes:
        name: that VECTORS gives.
        slots: that have them.
        hidden: units of the network that they go through.
        elements: of each vector; 0 until they have been read.
        folder: where they are; "" until then.
        files: as the manifest lists them, by name; empty where none does.
    """

    name: str
    slots: tuple[str, ...]
    hidden: tuple[int, ...]
    elements: int = 0
    folder: str = ""
    files: Mapping[str, FileEntry | None] = field(default_factory=dict, compare=False)

    @property
    def layout(self) -> SideSlots:
        """What algorithms know about them."""
        return SideSlots(self.name, self.elements, self.slots, self.hidden)


def keys_file(slot: int | str) -> str:
    return f"keys-{slot}.u64"


def places_file(slot: int) -> str:
    return f"places-{slot}.i32"


def found_in(folder: Path) -> dict[str, FileEntry | None]:
    """Return the files of vectors that no manifest lists, with the checksums that are beside them."""
    own = (path for path in sorted(folder.glob("*")) if NAMES.fullmatch(path.name))
    return {path.name: sealed(path) if sums_of(path).exists() else None for path in own}


class SideTable:
    """Vectors with ids, verified against their checksums.

    Args:
        whole: the vectors are opened at once, and not when the first is asked for: shards may be the only ones to read them.

    Raises:
        ModelError: a file is missing or damaged.
    """

    def __init__(self, side: Side, whole: bool = True) -> None:
        folder = Path(side.folder)
        self.elements = side.elements
        self.ladder = Ladder()
        files = side.files or found_in(folder)
        self._contents = dict[Path, Bytes]()
        self._part = VersionFile(folder / VALUES, files.get(VALUES))
        found = {name: self._opened(VersionFile(folder / name, file)) for name, file in files.items() if name != VALUES}
        try:
            slots = sorted(int(name.partition("-")[2].partition(".")[0]) for name in found if name.startswith("keys-"))
            self._keys = {
                slot: (found[keys_file(slot)].view(np.uint64), found[places_file(slot)].view(np.int32)) for slot in slots
            }
        except (ValueError, KeyError) as error:
            raise damaged(folder, f"{error} is missing or of another size") from error
        self._count = len(next(iter(self._keys.values()))[0]) if self._keys else 0
        for name, file in files.items():
            if file is not None and file.rows and file.rows != self._count:
                raise damaged(folder, f"{name} is of {file.rows:,} vectors, and the keys of {self._count:,} are there")
        for slot, (keys, places) in self._keys.items():
            check_places(folder, slot, keys, places, self._count)
        if whole:
            _ = self._values

    def _opened(self, part: VersionFile) -> Bytes:
        with reading(part.path):
            content = verified(part)
        self._contents[part.path] = content
        return content

    @functools.cached_property
    def _values(self) -> NDArray[np.float32]:
        content, size = self._opened(self._part), 4 * self.elements
        if not size or len(content) != size * self._count:
            raise damaged(self._part.path.parent, f"{VALUES} has {len(content):,} bytes, of {self._count:,} vectors")
        return content.view(np.float32).reshape(-1, self.elements)

    def __len__(self) -> int:
        return self._count

    def ids(self) -> tuple[NDArray[np.uint64], Codes]:
        """Return the distinct keys of ids as values of all slots, and the vector of each."""
        keys, places = (np.concatenate(of) for of in zip(*self._keys.values(), strict=True))
        distinct, first = np.unique(keys, return_index=True)
        self._check()
        return distinct, places[first]

    def values(self, codes: Codes, size: int) -> NDArray[np.float32]:
        """Return the vectors of codes of at least FIRST, after two lines of zeros, padded to a size."""
        found = np.zeros((size, self.elements), np.float32)
        found[FIRST : FIRST + len(codes)] = self._values[codes - FIRST]
        self._check()
        return found

    def codes(self, chunk: Chunk) -> SideCodes:
        """Return which vector each feature of a chunk has."""
        codes = np.zeros(len(chunk.keys), np.int32)
        for slot, (keys, places) in self._keys.items():
            own = np.flatnonzero(chunk.slots == slot)
            wanted = chunk.keys[own]
            at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
            codes[own] = np.where(keys[at] == wanted, places[at] + FIRST, LACKING)
        self._check()
        return SideCodes(self, codes)

    def _check(self) -> None:
        """Refuse what was read of files that were cut off where they stand."""
        for path, content in tuple(self._contents.items()):
            if cut_off(content):
                raise damaged(path.parent, f"{path.name} was cut off while it was in use")


def check_places(folder: Path, slot: int, keys: NDArray[np.uint64], places: Codes, count: int) -> None:
    """Refuse keys that are not ascending, and places of vectors that are not there."""
    if len(keys) != len(places) or not (keys[1:] > keys[:-1]).all():
        raise damaged(folder, f"{keys_file(slot)} must have ascending keys, as many as {places_file(slot)} has places")
    if len(places) and not 0 <= int(places.min()) <= int(places.max()) < count:
        raise damaged(folder, f"{places_file(slot)} names vectors that {VALUES} does not have")


def damaged(folder: Path, why: str) -> ModelError:
    return ModelError(f"The vectors in {folder} are damaged: {why}. Restore them from a backup, or TRAIN again.")


class SideCodes(NamedTuple):
    """The vector of each feature of a chunk: int32[num_codes]."""

    table: SideTable
    codes: Codes

    def cut(self, features: NDArray[Any]) -> SideRows:
        """Return the vector of each feature of a batch."""
        return SideRows(self.table, self.codes.take(features))


class SideRows(NamedTuple):
    """The vector of each row that a batch pulls: int32[m]."""

    table: SideTable
    codes: Codes

    def inputs(self, size: int) -> SideVectors:
        """Return the distinct vectors, and which of them each row has, padded to a size."""
        distinct, of_row = self.lines(size)
        values: Any = self.table.values(distinct, self.table.ladder.size(FIRST + len(distinct)))
        return SideVectors(values, of_row)  # type: ignore[arg-type]

    def lines(self, size: int) -> tuple[Codes, Codes]:
        """Return the codes of the distinct vectors, and the line of each row among them, FIRST that of the first, padded to a
        size."""
        distinct, line = np.unique(self.codes[self.codes >= FIRST], return_inverse=True)
        of_row = np.zeros(size, np.int32)
        of_row[: len(self.codes)] = self.codes
        of_row[: len(self.codes)][self.codes >= FIRST] = line + FIRST
        return distinct, of_row
