"""What new rows start with, computed once for a pull and the push of the same keys."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._native import Arguments, put_rows
from ..messages import Counts, Keys
from .aligned import split_keys
from .ladder import Ladder
from .row_programs import RowPrograms


class Started(NamedTuple):
    """The rows of a batch that were started, and what their columns began with, as far as it was asked for.

    Attributes:
        keys: uint64[n], of the batch; the same array stands for the same keys as long as it is in use.
        rows: int32[k], places of the started ones among them.
        halves: uint32[size, 2], their keys.
        columns: column -> float32[size, dim].
    """

    keys: Keys
    rows: NDArray[np.int32]
    halves: Counts
    columns: dict[str, NDArray[np.float32]]


class Starts:
    """Sets columns of new rows to their initial values. A row that a pull finds absent starts in the push of its batch: values
    that are drawn at random are drawn once for both."""

    def __init__(self, programs: RowPrograms) -> None:
        self._initial: Mapping[str, Callable[[Counts], Any]] = programs.initial
        self._ladder = Ladder()
        self._last: Started | None = None

    def put(self, columns: Mapping[str, NDArray[Any]] | Arguments, keys: Keys, new: NDArray[np.bool_]) -> None:
        """Set columns of the new ones among keys, in place."""
        if not self._initial or not new.any():
            return
        started = self._started(keys, np.flatnonzero(new).astype(np.int32))
        for name, initial in self._initial.items():
            if name in columns:
                if name not in started.columns:
                    started.columns[name] = np.asarray(initial(started.halves))
                put_rows(columns[name], started.rows, started.columns[name])

    def _started(self, keys: Keys, rows: NDArray[np.int32]) -> Started:
        last = self._last  # pulls of several threads set it
        if last is None or last.keys is not keys or not np.array_equal(last.rows, rows):
            last = self._last = Started(keys, rows, split_keys(keys[rows], self._ladder.size(len(rows))), {})
        return last
