"""Updates of rows on their way from a program to the server."""

from __future__ import annotations

from typing import NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from ..ps.keys import Keys
from .values import Floats, summed_by_key


class RowsPulled(NamedTuple):
    """Rows of distinct keys, and where each key that was asked for stands among them.

    Attributes:
        keys: uint64[k], distinct.
        positions: int32[n].
        rows: float32[k, dim].
    """

    keys: Keys
    positions: NDArray[np.int32]
    rows: Floats


class RowUpdate(NamedTuple):
    """What a push brings for distinct keys: gradients float32[k, dim], slots uint16[k], counts and clicks uint32[k]."""

    keys: Keys
    gradients: Floats
    slots: NDArray[np.uint16]
    counts: NDArray[np.uint32]
    clicks: NDArray[np.uint32]


def added(counts: NDArray[np.uint32] | None, positions: NDArray[np.int32], size: int, each: int) -> NDArray[np.uint32]:
    """Return the sum of counts for each distinct key, uint32[size]; of `each` where none are given."""
    if counts is None:
        return (np.bincount(positions, minlength=size) * each).astype(np.uint32)
    return np.bincount(positions, counts, size).astype(np.uint32)


def joined(updates: list[RowUpdate]) -> RowUpdate | None:
    """Return several updates as one, in which each key is once; None where there are none."""
    if len(updates) < 2:
        return updates[0] if updates else None
    keys = np.concatenate([one.keys for one in updates])
    distinct, positions, gradients = summed_by_key(keys, np.concatenate([one.gradients for one in updates]))
    first = np.zeros(len(distinct), np.uint16)
    first[positions] = np.concatenate([one.slots for one in updates])
    counts, clicks = (np.concatenate([getattr(one, name) for one in updates]) for name in ("counts", "clicks"))
    size = len(distinct)
    return RowUpdate(distinct, gradients, first, added(counts, positions, size, 1), added(clicks, positions, size, 1))


def nothing(dim: int) -> RowUpdate:
    """Return an update of no key."""
    none = np.empty(0, np.uint32)
    return RowUpdate(np.empty(0, np.uint64), np.empty((0, dim), np.float32), np.empty(0, np.uint16), none, none)


def refuse_pickle(what: object) -> NoReturn:
    """Refuse to be copied to another process.

    Raises:
        TypeError: always.
    """
    raise TypeError(
        f"{what!r} cannot be pickled: its connections belong to this process, and its rows are in the server. Call "
        "xpsql.ps.connect() in the other process; keep rows by checkpoint() or commit()."
    )
