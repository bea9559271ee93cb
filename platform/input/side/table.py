"""Side tables: vectors with ids as memory-mapped files, and which of them the features of a batch have.

values.f32        float32[n, elements]
keys-<s>.u64      uint64[n], the keys of the ids as values of the slot with number s, ascending
places-<s>.i32    int32[n], the vector of each
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ....algorithms.chunk import Chunk
from ....algorithms.inputs import SideSlots, SideVectors
from ...errors import ModelError
from ...ps.compiled.ladder import Ladder

VALUES = "values.f32"
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
    """

    name: str
    slots: tuple[str, ...]
    hidden: tuple[int, ...]
    elements: int = 0
    folder: str = ""

    @property
    def layout(self) -> SideSlots:
        """What algorithms know about them."""
        return SideSlots(self.name, self.elements, self.slots, self.hidden)


def keys_file(slot: int | str) -> str:
    return f"keys-{slot}.u64"


def places_file(slot: int) -> str:
    return f"places-{slot}.i32"


def mapped(folder: Path, slot: int) -> tuple[NDArray[np.uint64], Codes]:
    """Return the keys of ids as values of a slot, and the vector of each."""
    return np.memmap(folder / keys_file(slot), np.uint64, "r"), np.memmap(folder / places_file(slot), np.int32, "r")


class SideTable:
    """Vectors with ids, mapped into memory.

    Raises:
        ModelError: a file is missing or damaged.
    """

    def __init__(self, side: Side) -> None:
        folder = Path(side.folder)
        self.elements = side.elements
        self.ladder = Ladder()
        try:
            self._values = np.memmap(folder / VALUES, np.float32, "r").reshape(-1, side.elements)
            slots = [int(path.stem.partition("-")[2]) for path in folder.glob(keys_file("*"))]
            self._keys = {slot: mapped(folder, slot) for slot in slots}
        except (OSError, ValueError) as error:
            message = (
                f"The vectors {side.name} in {folder} cannot be read: {error}. Restore them from a backup, or TRAIN again."
            )
            raise ModelError(message) from error

    def __len__(self) -> int:
        return len(self._values)

    def ids(self) -> tuple[NDArray[np.uint64], Codes]:
        """Return the distinct keys of ids as values of all slots, and the vector of each."""
        keys, places = (np.concatenate(of) for of in zip(*self._keys.values(), strict=True))
        distinct, first = np.unique(keys, return_index=True)
        return distinct, places[first]

    def values(self, codes: Codes, size: int) -> NDArray[np.float32]:
        """Return the vectors of codes of at least FIRST, after two lines of zeros, padded to a size."""
        found = np.zeros((size, self.elements), np.float32)
        found[FIRST : FIRST + len(codes)] = self._values[codes - FIRST]
        return found

    def codes(self, chunk: Chunk) -> SideCodes:
        """Return which vector each feature of a chunk has."""
        codes = np.zeros(len(chunk.keys), np.int32)
        for slot, (keys, places) in self._keys.items():
            own = np.flatnonzero(chunk.slots == slot)
            wanted = chunk.keys[own]
            at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
            codes[own] = np.where(keys[at] == wanted, places[at] + FIRST, LACKING)
        return SideCodes(self, codes)


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
        distinct, line = np.unique(self.codes[self.codes >= FIRST], return_inverse=True)
        of_row = np.zeros(size, np.int32)
        of_row[: len(self.codes)] = self.codes
        of_row[: len(self.codes)][self.codes >= FIRST] = line + FIRST
        values: Any = self.table.values(distinct, self.table.ladder.size(FIRST + len(distinct)))
        return SideVectors(values, of_row)  # type: ignore[arg-type]
