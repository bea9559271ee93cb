"""Task assignment: which worker takes which split, from which batch on."""

from __future__ import annotations

import math
import threading
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from ..errors import TrainingError
from ..ps.watermarks import Turn

NONE: Mapping[Turn, int] = MappingProxyType({})


class Standing(NamedTuple):
    """A training's progress by turns; turns that are not named have not begun.

    Attributes:
        finished: turn -> how many batches it has, for finished turns.
        applied: turn -> how many of its batches every shard has.
        counted: turn -> how many of its batches the metrics have.
        reached: turn -> the most of its batches that any shard has.
    """

    finished: Mapping[Turn, int] = NONE
    applied: Mapping[Turn, int] = NONE
    counted: Mapping[Turn, int] = NONE
    reached: Mapping[Turn, int] = NONE


class TurnAssignment(NamedTuple):
    """A turn as a worker gets it.

    Attributes:
        turn: which one.
        start: the first batch to take.
        applied: batches that every shard has: they are scored, where metrics lack them, but not learned from again.
        counted: batches that the metrics have.
        reached: batches that some shard has, so that a worker that scores them again has learned from them already.
        term: how many times it was dealt before; reports of an earlier term do not count.
    """

    turn: Turn
    start: int = 0
    applied: int = 0
    counted: int = 0
    reached: int = 0
    term: int = 0


Deal = Callable[[], TurnAssignment | None]
"""Gives the next turn, None when there are no more."""


class Dealer:
    """Deals turns in order, each from its next batch, and knows which worker has which; thread-safe.

    A worker may hold several turns, because it prefetches. The turns of a lost worker are dealt again.

    Args:
        turns: all of the training, in order of learning.
        num_workers: that ask.
        fixed: worker r takes turns r, r + num_workers, ... whatever the timing (bsp); else the worker that asks takes the next
            one.
        standing: how far the training has come; turns that are finished, on every shard, are not dealt.
    """

    def __init__(
        self,
        turns: Sequence[Turn],
        num_workers: int,
        fixed: bool,
        standing: Standing = Standing(),  # noqa: B008, it is immutable
    ) -> None:
        self._lock = threading.Lock()
        self._last_pass = math.inf
        self._place = {turn: number for number, turn in enumerate(turns)}
        self._finished = finished_of(standing)
        self._terms: Counter[Turn] = Counter()
        self._held: dict[int, list[Turn]] = {number: [] for number in range(num_workers)}
        free = self._open(turns, standing)
        self._waiting = [self._open(turns[r::num_workers], standing) if fixed else free for r in range(num_workers)]

    def next(self, worker: int) -> TurnAssignment | None:
        """Return the next turn of a worker, None when there are no more."""
        with self._lock:
            if not self._waiting[worker] or self._waiting[worker][0].turn.pass_number > self._last_pass:
                return None
            dealt = self._waiting[worker].popleft()
            self._held[worker].append(dealt.turn)
            return dealt

    def open(self, pass_number: int) -> None:
        """Deal no turns of later passes than this one, until another one is opened."""
        with self._lock:
            self._last_pass = pass_number

    def require(self, batches: Mapping[Turn, int]) -> None:
        """Require turns of this training and valid numbers of batches.

        Raises:
            TrainingError: one is none.
        """
        for turn, number in batches.items():
            if turn not in self._place or number < 0:
                raise TrainingError(f"Expected batches of a turn of this training, got {number} of {turn}.")

    def finish(self, worker: int, turn: Turn, batches: int) -> None:
        """Note that a worker has finished a turn: all of its batches are acknowledged by every shard."""
        with self._lock:
            self._finished[turn] = batches
            if turn in self._held[worker]:
                self._held[worker].remove(turn)

    def give_back(self, worker: int, standing: Standing) -> list[Turn]:
        """Deal the turns that a lost worker held again, first and in order; return them."""
        with self._lock:
            held = sorted(self._held[worker], key=lambda turn: self._place[turn])
            self._held[worker] = []
            self._terms.update(held)
            self._waiting[worker].extendleft(reversed(self._open(held, standing)))
            return held

    def hand_over(self, turn: Turn, holder: int, worker: int, standing: Standing) -> TurnAssignment | None:
        """Hand a turn over to another worker, from its next batch; None where it has just been finished."""
        with self._lock:
            if turn not in self._held[holder]:
                return None
            self._held[holder].remove(turn)
            self._held[worker].append(turn)
            self._terms[turn] += 1
            return self._dealt(turn, standing)

    def term(self, turn: Turn) -> int:
        """Return how many times a turn was dealt again."""
        with self._lock:
            return self._terms[turn]

    @property
    def held(self) -> dict[int, list[Turn]]:
        """The turns that each worker holds, in the order in which it got them."""
        with self._lock:
            return {worker: list(turns) for worker, turns in self._held.items()}

    @property
    def finished(self) -> dict[Turn, int]:
        """How many batches each finished turn has."""
        with self._lock:
            return dict(self._finished)

    @property
    def unfinished(self) -> int:
        """How many turns of the open passes are not finished."""
        with self._lock:
            return sum(turn.pass_number <= self._last_pass and turn not in self._finished for turn in self._place)

    def _open(self, turns: Sequence[Turn], standing: Standing) -> deque[TurnAssignment]:
        return deque(self._dealt(turn, standing) for turn in turns if turn not in self._finished)

    def _dealt(self, turn: Turn, standing: Standing) -> TurnAssignment:
        applied, counted, reached = (batches.get(turn, 0) for batches in (standing.applied, standing.counted, standing.reached))
        return TurnAssignment(turn, min(applied, counted), applied, counted, reached, self._terms[turn])


def finished_of(standing: Standing) -> dict[Turn, int]:
    """Return how many batches each turn has that is finished and applied on every shard."""
    return {turn: batches for turn, batches in standing.finished.items() if standing.applied.get(turn, 0) >= batches}
