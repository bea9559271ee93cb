"""The steps of the networks' parameters, at the shards that hold their pieces: one for each step of all workers."""

from __future__ import annotations

import functools
import operator
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ...errors import LostError, TrainingError
from ..messages import Array, Arrays, Push, Touched
from .network_messages import NetworkGradient

if TYPE_CHECKING:
    from ..shard import Shard

WAIT_SECONDS = 600.0
NONE = np.empty(0, np.uint32)
NOTHING = Touched(np.empty(0, np.uint64), np.empty(0, np.uint16), NONE, NONE, 0)


class ParameterSteps:
    """The pieces that one shard holds, and how they change: once a step, when the gradients of all shards' vectors are there,
    by their sum in the order of shards over the step's examples. So results do not depend on timing.

    A gradient that came before is ignored, so one may be sent again.

    Args:
        shard: whose dense parameters they are.
        names: of the pieces; none where others hold all.
        num_shards: how many contribute to each step.
    """

    def __init__(self, shard: Shard, names: Sequence[str], num_shards: int) -> None:
        self._shard = shard
        self.names = tuple(names)
        self._num_shards = num_shards
        self._parts: dict[int, NetworkGradient] = {}
        self._applied = 0
        self._ended = False
        self._changed = threading.Condition()

    def take(self, part: NetworkGradient) -> None:
        """Take in a shard's part of a step, once.

        Raises:
            TrainingError: a step before it lacks parts, or it does not fit the pieces; or the update is refused.
        """
        with self._changed:
            if not self.names or part.step < self._applied or part.shard in self._parts:
                return
            if part.step > self._applied or not 0 <= part.shard < self._num_shards:
                raise TrainingError(
                    f"Expected a gradient of step {self._applied} by one of {self._num_shards} shards, got one of step "
                    f"{part.step} by shard {part.shard}. Report this with the log of the training."
                )
            shapes = self._shard.dense.shapes
            for name, values in part.gradients.items():
                if name not in self.names or values.shape != shapes[name]:
                    raise TrainingError(
                        f"Shard {part.shard} sent a gradient of {name}, {values.shape}, which is not held here."
                    )
            self._parts[part.shard] = part
            if len(self._parts) == self._num_shards:
                held = self._shard.dense
                self._shard.step(
                    [Push(NOTHING, {}, {}, dense=self._mean(), dense_updates=held.updates(), dense_weights=held.pull())]
                )
                self._parts, self._applied = {}, self._applied + 1
                self._changed.notify_all()

    def _mean(self) -> dict[str, Array]:
        """Return the gradient of the mean over the step's examples."""
        parts = [self._parts[number] for number in sorted(self._parts)]
        examples = np.float32(max(parts[0].examples, 1))
        shapes = self._shard.dense.shapes
        mean: dict[str, Array] = {}
        for name in self.names:
            given = [part.gradients[name] for part in parts if name in part.gradients]
            mean[name] = functools.reduce(operator.add, given) / examples if given else np.zeros(shapes[name], np.float32)
        return mean

    def values(self, after: int) -> Arrays:
        """Return the pieces as they are after so many steps.

        Raises:
            LostError: the shard ends.
            TrainingError: the step is not made within ten minutes.
        """
        if not self.names:
            return {}
        self.wait(after, WAIT_SECONDS)
        held = self._shard.dense.pull()
        return {name: held[name] for name in self.names}

    def wait(self, after: int, seconds: float) -> None:
        """Wait until so many steps are made."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._ended or not self.names or self._applied >= after, seconds):
                missing = ", ".join(str(n) for n in range(self._num_shards) if n not in self._parts)
                raise TrainingError(f"Waited {seconds:.0f} s for step {after} of the networks over vectors: shard {missing}.")
            if self._ended:
                raise LostError("The shard ends.")

    def end(self) -> None:
        """Wake all that wait: there will be no further step."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()
