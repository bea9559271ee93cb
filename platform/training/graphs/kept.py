"""Rounds of a vertex program that are kept on disk, so that RESUME goes on behind the last of them.

A checkpoint has the values of all vertices after a round. The rounds after it depend on them and on the edges alone, so their
bits are those of a training that nobody interrupted, whatever the number of workers.
"""

from __future__ import annotations

import json
import time
import zlib
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ....algorithms.vertex_program import Values
from ....warehouse.draft import Draft
from ....warehouse.trainings.checkpoint_files import read_state, write_state
from ....warehouse.trainings.checkpoints import DRIVER, Checkpoint, name_of
from ...display import plural
from ...errors import CheckpointError, ModelError
from ...ps.messages import Keys

Note = Callable[[str], None]


class RoundDone(NamedTuple):
    """The values of all vertices after so many rounds."""

    rounds: int
    values: Values


class KeptRounds:
    """The rounds of a training that are kept.

    Args:
        draft: of the version.
        seconds: between checkpoints; 0: none are taken.
        edges: of the graph; vertices: the keys of its vertices.
        note: gets what happens, as sentences.
    """

    def __init__(self, draft: Draft, seconds: float, edges: int, vertices: Keys, note: Note) -> None:
        self._checkpoints, self._epoch = draft.checkpoints, draft.manifest.epoch
        self._seconds, self._edges, self._note = seconds, edges, note
        self._graph = {"vertices": len(vertices), "edges": edges, "keys": zlib.crc32(vertices.tobytes())}
        begun = [name.split("-") for name in self._checkpoints.names()]
        self._number = max((int(number) for epoch, number in begun if int(epoch) == self._epoch), default=0)
        self._taken = time.monotonic()

    def last(self) -> RoundDone | None:
        """Return the last round that is kept of this graph; None where there is none."""
        for found in self._checkpoints.complete():
            if isinstance(found, CheckpointError):
                self._note(f"A checkpoint is passed over: {found}.")
                continue
            try:
                done = self._read(found)
            except CheckpointError as error:
                self._note(f"A checkpoint is passed over: {error}.")
                continue
            if done is not None:
                self._note(f"It goes on after {done.rounds:,} {plural('round', done.rounds)}.")
            return done
        return None

    def after(self, done: RoundDone) -> None:
        """Keep a round, if it is time to; where the disk does not take it, the training goes on, and tells."""
        if not self._seconds or time.monotonic() - self._taken < self._seconds:
            return
        self._number += 1
        name = name_of(self._epoch, self._number)
        head = json.dumps({**self._graph, "rounds": done.rounds}).encode() + b"\n"
        try:
            file = write_state(self._checkpoints.place, f"{name}/{DRIVER}", [head, done.values.tobytes()])
            self._checkpoints.commit(Checkpoint(self._epoch, self._number, driver=file, examples=self._edges))
        except ModelError as error:
            self._note(f"No checkpoint was taken: {error}")
        self._taken = time.monotonic()

    def _read(self, checkpoint: Checkpoint) -> RoundDone | None:
        """Return the round of a checkpoint; None where it is of another graph.

        Raises:
            CheckpointError: it is damaged.
        """
        content = read_state(self._checkpoints.place, f"{checkpoint.name}/{DRIVER}", checkpoint.driver).tobytes()
        head, _, values = content.partition(b"\n")
        known = json.loads(head)
        rounds = int(known.pop("rounds"))
        if known != self._graph:
            self._note("The query returns other edges than before, so the rounds begin again.")
            return None
        return RoundDone(rounds, np.frombuffer(values, np.int64).copy())
