"""Vocabulary: the distinct features of a chunk, and the codes that stand for them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...algorithms.chunk import ABSENT, Codes
from ..ps._native import unique
from ..ps.keys import feature_keys, hashed_keys, raw_ids, raw_keys, slot_seed
from .slot import Slot

__all__ = ["ABSENT", "Codes", "Vocabulary", "keys_of", "shown_keys"]


class Vocabulary:
    """The distinct features of one chunk while it is being encoded; hands out codes."""

    def __init__(self) -> None:
        self.keys: list[NDArray[np.uint64]] = []
        self.slots: list[NDArray[np.uint16]] = []
        self.size = 0

    def add(self, keys: NDArray[np.uint64], slot: int) -> int:
        """Add keys of a slot and return the first one's provisional code."""
        self.keys.append(keys)
        self.slots.append(np.full(len(keys), slot, np.uint16))
        self.size += len(keys)
        return self.size - len(keys)

    def finish(self) -> tuple[NDArray[np.uint64], NDArray[np.uint16], Codes | None]:
        """Return the distinct keys, their slots, and the final code of each provisional one, followed by -1 for absent.

        None instead of final codes: no key was added twice, and provisional codes are final.
        """
        if not self.size:
            return np.empty(0, np.uint64), np.empty(0, np.uint16), None
        added, numbers = np.concatenate(self.keys), np.concatenate(self.slots)
        keys, inverse = unique(added)
        if len(keys) == len(added):
            return added, numbers, None
        slots = np.empty(len(keys), np.uint16)
        slots[inverse[::-1]] = numbers[::-1]
        return keys, slots, np.append(inverse, np.int32(ABSENT))


def keys_of(values: pa.Array, slot: Slot) -> NDArray[np.uint64]:
    """Return the keys of a slot's values."""
    if slot.raw:
        return raw_keys(slot.source, values)
    return hashed_keys(slot.source, values) if slot.hashed else feature_keys(slot.source, values)


def shown_keys(keys: NDArray[np.int64], slot: Slot) -> NDArray[np.int64]:
    """Return the keys of a slot's features as users know them: raw ids where keys are ids."""
    if not slot.raw:
        return keys
    own = keys.view(np.uint64)
    return np.where(own == slot_seed(slot.source), keys, raw_ids(own).view(np.int64))
