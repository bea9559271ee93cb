"""Checkpoints of shards that are tasks: each writes its part itself, when the driver asks."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

from ....warehouse.storage import Storage
from ....warehouse.trainings.checkpoints import NAME, CheckpointPart, name_of
from ...errors import CheckpointError, LostError
from ...ps.gang import Gang
from ...ps.shard import Shard
from ...ps.transport.base import ShardsClient
from ...ps.transport.sockets import Address
from ...ps.transport.wire import Acknowledged, Handler, Method
from ..checkpoints.checkpointer import CheckpointContents
from ..checkpoints.driver_state import DriverState
from ..checkpoints.files import write
from .messages import Contact

ASK_SECONDS = 30.0
ANY = -1


class Hold(NamedTuple):
    """A request to apply no further step (bsp)."""


class Stands(NamedTuple):
    """How many steps are applied."""

    steps: int


class Write(NamedTuple):
    """A request to write what a shard holds into a checkpoint; answered when that is done.

    Attributes:
        folder: the checkpoint's.
        full: all rows; else those that changed since the last one.
        steps: the step to write (bsp); -1: the state at the time of the request.
    """

    folder: str
    full: bool
    steps: int


class PartWritten(NamedTuple):
    """What was written, as Part.text."""

    part: str


class Release(NamedTuple):
    """A request to go on, and to give up a checkpoint under way."""


HOLD = Method("hold", Hold, Stands)
WRITE = Method("write", Write, PartWritten)
RELEASE = Method("release", Release, Acknowledged)


def checkpoint_handlers(
    shard: Shard, gang: Gang | None, place: Storage, number: int, num_shards: int
) -> tuple[Handler[Hold, Stands], Handler[Write, PartWritten], Handler[Release, Acknowledged]]:
    """Return how a shard answers the calls of checkpoints.

    Args:
        gang: the shard's, whose steps all shards must be at (bsp); None: each shard writes as it is.
        place: where checkpoints go.
        number: of the shard.
    """

    def hold(_: Hold) -> Stands:
        return Stands(ANY if gang is None else gang.hold())

    def written(request: Write) -> PartWritten:
        if NAME.fullmatch(request.folder) is None:
            raise CheckpointError(f"expected the name of a checkpoint, such as {name_of(1, 1)}, got {request.folder!r}")
        standing: AbstractContextManager[None] = nullcontext() if gang is None else gang.standing(request.steps)
        with standing:
            snapshot = shard.snapshot(request.full)
        with snapshot:
            return PartWritten(write(place, request.folder, number, num_shards, snapshot).text())

    def release(_: Release) -> Acknowledged:
        shard.cancel()
        if gang is not None:
            gang.release()
        return Acknowledged()

    return Handler(HOLD, hold), Handler(WRITE, written), Handler(RELEASE, release)


class RemoteTaker:
    """Lets remote shards write; see Taker. With bsp all of them write the state after the same step.

    Args:
        contact: of the job.
        together: bsp.
        state: returns how far the training is.
        taken: called, when all have written, with how many batches they have applied.
    """

    def __init__(
        self,
        addresses: Sequence[Address],
        contact: Contact,
        together: bool,
        state: Callable[[], DriverState],
        taken: Callable[[int], None],
    ) -> None:
        self._addresses = addresses
        self._contact = contact
        self._together = together
        self._state = state
        self._taken = taken
        self._given_up = threading.Event()

    def take(self, folder: str, full: bool) -> CheckpointContents:
        """See Taker."""
        self._given_up.clear()
        with self._client() as client:
            try:
                steps = max(stands.steps for stands in client.each(HOLD, Hold(), ASK_SECONDS)) if self._together else ANY
                state = self._state()
                wrote = client.each_until(WRITE, Write(folder, full, steps), self._given_up)
            except BaseException:
                self._release()
                raise
        parts = [CheckpointPart.of(one.part) for one in wrote]
        self._taken(sum(batches for part in parts for *_, batches in part.watermarks))
        return CheckpointContents(parts, state)

    def cancel(self) -> None:
        """See Taker."""
        self._given_up.set()
        self._release()

    def _release(self) -> None:
        with contextlib.suppress(LostError), self._client() as client:  # the driver finds out itself that shards are lost
            client.each(RELEASE, Release(), ASK_SECONDS)

    def _client(self) -> ShardsClient:
        return self._contact.dial_shards(self._addresses, ASK_SECONDS)
