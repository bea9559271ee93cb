"""What one training takes over from another in which several candidates learned side by side: the columns of some of them.

A training begins with a checkpoint of the other as with one of its own, but for names: what is `weights_3.z` there, of the
fourth of 16 candidates, is `weights.z` of the one that goes on alone, or `weights_1.z` of the second of two.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from ....warehouse.entries import Split
from ....warehouse.manifest import read_manifest
from ....warehouse.storage import Storage
from ....warehouse.trainings.checkpoints import FOLDER, Checkpoint, Checkpoints
from ....warehouse.trainings.progress import read_progress
from ...errors import CheckpointError, DataError
from ...ps.candidates import OnTrial
from ...ps.moments import Moments
from .driver_state import DriverState

FIELD = re.compile(r"(\S+) (\w+)\[(\d+)\] @ (\d+)")
KEY_BYTES = 8
OF_ALL = ("min_weight", "max_weight", "max_abs_weight")  # of all candidates together
Layout = Sequence[tuple[str, str, int, int]]
T = TypeVar("T")


class Beginning(NamedTuple):
    """What a training begins with.

    Attributes:
        folder: of the version that the other training was to make.
        training: its name; see Manifest.
        labels: its labels, one for each candidate.
        candidates: those that are taken over, by their numbers there.
    """

    folder: Path
    training: str
    labels: tuple[str, ...]
    candidates: tuple[int, ...]

    @property
    def checkpoints(self) -> Checkpoints:
        """The checkpoints of the other training."""
        return Checkpoints(Storage(str(self.folder / FOLDER)), self.training)

    def checkpoint(self) -> Checkpoint:
        """Return its last checkpoint.

        Raises:
            CheckpointError: there is none that is whole.
        """
        found = next(iter(self.checkpoints.complete()), None)
        if not isinstance(found, Checkpoint):
            raise found or CheckpointError(f"{self.folder} has no checkpoint")
        return found

    def check(self, splits: Sequence[Split]) -> None:
        """Require the input to be what the other training learned from.

        Raises:
            DataError: it has changed meanwhile.
        """
        before = read_manifest(self.folder).splits
        if [one.rows for one in before] != [one.rows for one in splits]:
            raise DataError("The input has changed while TUNE tried its candidates. Run it again.")

    def there(self, name: str) -> str:
        """Return what a column of a row is called in the other training; statistics, which are of all, as here."""
        table, dot, column = name.partition(".")
        if not dot:
            return name
        base, _, number = table.rpartition("_") if self.candidates[1:] else (table, "", "0")
        return f"{base}_{self.candidates[int(number)]}{dot}{column}" if self.labels[1:] else name

    def records(self, records: NDArray[np.uint8], held: str, layout: Layout, row_bytes: int) -> NDArray[np.uint8]:
        """Return records in the layout that they have here.

        Args:
            held: the layout of the other training; see layout_of.
        """
        there = {name: (int(dim), int(offset)) for name, _, dim, offset in FIELD.findall(held)}
        taken = np.zeros((len(records), row_bytes), np.uint8)
        taken[:, :KEY_BYTES] = records[:, :KEY_BYTES]
        for name, dtype, dim, offset in layout:
            had, start = there[self.there(name)]
            if had != dim:
                raise CheckpointError(f"{name} has {had} numbers there and {dim} here")
            size = dim * np.dtype(dtype).itemsize
            taken[:, offset : offset + size] = records[:, start : start + size]
        return taken

    def holds(self, held: str, layout: Layout) -> bool:
        """Return whether records of another training have all columns of a layout."""
        return {self.there(name) for name, *_ in layout} <= {name for name, *_ in FIELD.findall(held)}

    def trials(self, trials: OnTrial, names: Sequence[str]) -> OnTrial:
        """Return rows on trial with the columns that they have here."""
        return trials._replace(columns={name: trials.columns[self.there(name)] for name in names})

    def moments(self, moments: Moments, count: int) -> Moments:
        """Return the statistics of slots and, where they are standardised, of the labels here, which are all alike there."""
        return Moments._make(line[:count] for line in moments)

    def driver(self, state: DriverState) -> DriverState:
        """Return how far the training is, with the metrics and observations of the candidates that are taken over."""
        if not self.labels[1:]:
            return state

        def chosen(values: Sequence[T]) -> tuple[T, ...]:
            return tuple(values[number] for number in self.candidates)

        lines, later = list(self.candidates), state.later
        return state._replace(
            tallies=chosen(state.tallies),
            windows=tuple(
                one._replace(tallies=chosen(one.tallies), segments={s: chosen(t) for s, t in one.segments.items()})
                for one in state.windows
            ),
            open=tuple(one._replace(labels=one.labels[lines], predictions=one.predictions[lines]) for one in state.open),
            validated=tuple(one._replace(tallies=chosen(one.tallies)) for one in state.validated),
            later=None if later is None else later._replace(tallies=chosen(later.tallies)),
            observed=state.observed.of_labels(lines),
        )

    def progress(self, labels: Sequence[str]) -> list[dict[str, Any]]:
        """Return the lines of progress of the candidates that are taken over, with the labels that they have here."""
        lines, every = read_progress(self.folder), len(self.labels)
        if not self.labels[1:]:
            return lines
        found = []
        for start in range(0, len(lines), every):
            of_one = [{k: v for k, v in line.items() if k not in OF_ALL} for line in lines[start : start + every]]
            first = {k: v for k, v in of_one[0].items() if k not in of_one[-1]}  # of no label
            for number, label in zip(self.candidates, labels, strict=True):
                line = {k: v for k, v in of_one[number].items() if k != "label" and (number or k not in first)}
                named = {"label": label} if labels[1:] else {}
                found.append({**line, **named, **(first if label == labels[0] else {})})
        return found


class PausedError(Exception):
    """A training has learned as many batches as it was to, and has a checkpoint there.

    Attributes:
        folder, training: see Beginning.
        metrics: what judges it: of the rows of VALIDATE, else over EVALUATE's windows, else of the first pass.
        examples: that it has learned from.
    """

    def __init__(self, folder: Path, training: str, metrics: Mapping[str, float | None], examples: int) -> None:
        super().__init__(f"Paused after {examples:,} examples.")
        self.folder, self.training = folder, training
        self.metrics, self.examples = dict(metrics), examples
