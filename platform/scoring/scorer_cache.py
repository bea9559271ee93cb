"""Scorers of versions, and a cache of them, so that the next rows wait neither for files nor for the compiler."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from pathlib import Path
from typing import TYPE_CHECKING

from ...warehouse.manifest import FILE
from ...warehouse.mapped import Identity
from ...warehouse.rows import reading
from .scorer import Padding, Pull, Scorer, SumsScorer, sums_of_version
from .weights import Weights

if TYPE_CHECKING:
    from ...warehouse.version import Version

MOST_SCORERS = 8
MOST_FLOATS = 1 << 24
"""The weights of all cached scorers: 64 MiB. A larger version is loaded anew by each statement."""

Key = tuple[Identity, str, str, tuple[tuple[str, Path], ...]]


def scorer_of(version: Version, pull: Pull, sizes: Padding | None = None) -> Scorer:
    """Return what scores rows with a version; see Scorer."""
    if (sums := sums_of_version(version.manifest)) is not None:
        return SumsScorer(version, pull, sizes, sums)
    from .by_algorithm import AlgorithmScorer  # imports JAX

    return AlgorithmScorer(version, pull, sizes)


class Scorers:
    """An LRU cache of versions' scorers; thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[Key, tuple[Scorer, int]] = OrderedDict()

    def of(self, version: Version) -> Scorer:
        """Return the scorer of a version, loaded if it is not cached."""
        key = key_of(version)
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key][0]
        scorer, floats = scorer_of(version, Weights(version, 0, 1).pull), floats_of(version)
        if floats <= MOST_FLOATS:
            with self._lock:
                self._kept[key] = scorer, floats
                while len(self._kept) > MOST_SCORERS or sum(held for _, held in self._kept.values()) > MOST_FLOATS:
                    self._kept.popitem(last=False)
        return scorer


def key_of(version: Version) -> Key:
    """Return a key that distinguishes a version from a later one of the same number, made after it was dropped, and from a copy
    of it that took its place."""
    manifest = version.manifest
    with reading(version.folder / FILE):
        identity = Identity.of((version.folder / FILE).stat())
    return identity, manifest.training, str(manifest.finished), version.replaced


def floats_of(version: Version) -> int:
    """Return how many floats its weights are."""
    manifest = version.manifest
    dense = sum(math.prod(entry.shape) for entry in manifest.dense)
    return dense + (manifest.learned.rows or 0) * sum(table.dim for table in manifest.tables)


SCORERS = Scorers()
