"""How a worker reaches the networks that shards run, and which shard owns which vector."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ..messages import Floats, OutputGradients, Push
from .network_messages import Codes, OutputsAsked, OutputsMade

FIRST_CODE = 2
"""Of a vector; the one before stands for all ids that lack theirs."""
MOST_RUN, RUNS = 4096, 16


class PendingOutputs(Protocol):
    """The pending result of a request; see Handle."""

    def result(self) -> OutputsMade:
        """Wait for the answer and return it."""
        ...


class OutputsPort(Protocol):
    """One shard, as what asks for outputs sees it."""

    def start_outputs(self, asked: OutputsAsked) -> PendingOutputs:
        """Start a request for outputs of vectors that are all this shard's."""
        ...


def run_length(count: int, num_shards: int) -> int:
    """Return how many neighbours of so many vectors a shard owns together, as their files have them: many, so that it maps
    whole pages, and few enough that vectors which are in use at the same time are on several shards."""
    return max(1, min(MOST_RUN, count // (RUNS * num_shards)))


def owners(codes: Codes, run: int, num_shards: int) -> NDArray[np.int64]:
    """Return the number of the shard that owns each vector."""
    return (codes.astype(np.int64) - FIRST_CODE) // run % num_shards


class NetworkShards:
    """The networks that shards run, as one worker sees them.

    Args:
        ports: the shards in order.
        sizes: by piece of the networks' parameters, how many floats it has; shards keep them to themselves.
        counts: by the name of vectors, how many there are.
    """

    def __init__(self, ports: Sequence[OutputsPort], sizes: dict[str, int], counts: Mapping[str, int]) -> None:
        self._ports = tuple(ports)
        self.sizes = sizes
        self.counts = counts
        self._runs = {name: run_length(count, len(ports)) for name, count in counts.items()}

    def start(self, worker: int, codes: Mapping[str, Codes], alone: bool) -> PendingOutputs:
        """Start asking for outputs; see OutputsAsked."""
        places = {name: self._places(name, own) for name, own in codes.items()}
        parts = []
        for number, port in enumerate(self._ports):
            own = {name: codes[name][where[number]] for name, where in places.items()}
            parts.append(port.start_outputs(OutputsAsked(worker, own, alone)))
        return MergingOutputs(parts, places) if len(parts) > 1 else parts[0]

    def parts(self, push: Push, parts: Sequence[Push]) -> list[Push]:
        """Return each shard's part of a push with its gradients of outputs."""
        divided = list[dict[str, OutputGradients]]({} for _ in parts)
        for name, (codes, gradients, examples) in push.outputs.items():
            for own, where in zip(divided, self._places(name, codes), strict=True):
                own[name] = OutputGradients(codes[where], gradients[where], examples)
        return [part._replace(outputs=own) for part, own in zip(parts, divided, strict=True)]

    def _places(self, name: str, codes: Codes) -> list[NDArray[np.intp]]:
        """Return where the codes of each shard stand."""
        owner = owners(codes, self._runs[name], len(self._ports))
        return [np.flatnonzero(owner == number) for number in range(len(self._ports))]


class MergingOutputs(NamedTuple):
    """Outputs of several shards on their way."""

    parts: Sequence[PendingOutputs]
    places: Mapping[str, Sequence[NDArray[np.intp]]]

    def result(self) -> OutputsMade:
        """See Handle."""
        made = [part.result().values for part in self.parts]
        values = dict[str, Floats]()
        for name, places in self.places.items():
            whole = np.empty((sum(map(len, places)), made[0][name].shape[1]), np.float32)
            for own, where in zip(made, places, strict=True):
                whole[where] = own[name]
            values[name] = whole
        return OutputsMade(values)
