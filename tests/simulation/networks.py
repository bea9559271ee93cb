"""A network over vectors that shards of a world run, in plain NumPy: one weight, and an element for each vector."""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xpsql.platform.input.batches import Batch
from xpsql.platform.ps.messages import Arrays, OutputGradients, Stored, StoredPiece
from xpsql.platform.ps.networks.network_messages import Codes
from xpsql.platform.ps.networks.network_shards import NetworkShards, PendingOutputs, owners, run_length
from xpsql.platform.ps.networks.runs import LocalPeers, NetworkRuns
from xpsql.platform.ps.networks.steps import ParameterSteps
from xpsql.platform.ps.remote import RemotePeers
from xpsql.platform.ps.shard import Shard

VECTORS, PIECE, COUNT = "v", "net", 40
SIZES = {PIECE: 1}
SECONDS = 700.0
RATE = np.float32(0.125)

Floats = NDArray[np.float32]


class OneWeight:
    """What shards run; see Network."""

    dim, count, names = 1, COUNT + 2, (PIECE,)
    vectors = np.random.default_rng(4).normal(size=COUNT + 2).astype(np.float32)

    def outputs(self, parameters: Arrays, codes: Codes) -> Floats:
        return (self.vectors[codes] * np.asarray(parameters[PIECE]))[:, None]

    def gradients(self, parameters: Arrays, codes: Codes, gradients: Floats) -> Arrays:
        return {PIECE: (self.vectors[codes] * gradients[:, 0]).sum(dtype=np.float32)[None]}


NETWORK = OneWeight()


class OneDense:
    """The dense parameters of a shard, of which the first has the weight of the network; see ShardDense."""

    pulled: tuple[str, ...] = ()
    dated: tuple[str, ...] = ()

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names, self.version = names, 1
        self._values = dict.fromkeys(names, np.ones(1, np.float32))

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        return {name: values.shape for name, values in self._values.items()}

    def pull(self) -> dict[str, Any]:
        return dict(self._values)

    def updates(self) -> dict[str, int]:
        return {}

    def push(self, gradients: Arrays, now: int, seen: Any, pulled: Any) -> dict[str, float]:
        for name in self.names:
            if name in gradients:
                self._values[name] = moved(self._values[name], np.asarray(gradients[name]))
                self.version += 1
        return {}

    def load(self, stored: Mapping[tuple[str, str], Any], now: int) -> None:
        self._values |= {name: stored[name, "w"] for name in self.names if (name, "w") in stored}

    def arrays(self) -> Iterator[Stored]:
        yield from (Stored(name, "w", values) for name, values in self._values.items())

    def dump(self) -> Iterator[StoredPiece]:
        yield from (StoredPiece(name, "w", values, 0) for name, values in self._values.items())


def moved(weight: Floats, mean: Floats) -> Floats:
    return (weight - RATE * mean).astype(np.float32)


def names_of(num_shards: int) -> list[list[str]]:
    return [[PIECE], *([] for _ in range(num_shards - 1))]


def local_runs(recipe: Any, columns: Any, shards: Sequence[Shard]) -> list[NetworkRuns]:
    """See vector_networks."""
    steps = [ParameterSteps(shard, shard.dense.names, len(shards)) for shard in shards]
    return [NetworkRuns(number, {VECTORS: NETWORK}, one, lambda: LocalPeers(steps)) for number, one in enumerate(steps)]


def remote_runs(number: int, shard: Shard, recipe: Any, columns: Any, num_shards: int, dial: Any) -> NetworkRuns:
    """See vector_networks."""
    names = names_of(num_shards)
    steps = ParameterSteps(shard, names[number], num_shards)
    return NetworkRuns(number, {VECTORS: NETWORK}, steps, lambda: RemotePeers(dial(), names, SECONDS))


def asked_of(client: Any, recipe: Any, columns: Any) -> NetworkShards:
    """See vector_networks."""
    networks: NetworkShards = client.run_networks(SIZES, {VECTORS: COUNT})
    return networks


def codes_of(batch: Batch) -> Codes:
    """Return which vectors the features of a batch have; some lack theirs."""
    return np.unique(batch.keys % np.uint64(COUNT + 1) + np.uint64(1)).astype(np.int32)


class LogOutputs:
    """What a batch asks for; see BatchOutputs. Each output is added to all scores."""

    def __init__(self, batch: Batch, networks: NetworkShards, worker: int) -> None:
        self.codes, self.residual = codes_of(batch), np.float32(0)
        self._pending: PendingOutputs = networks.start(worker, {VECTORS: self.codes}, batch.applied)

    def bias(self) -> np.float32:
        return bias_of(self._pending.result().values[VECTORS])

    def gradients(self, gradients: dict[str, Any], examples: int) -> dict[str, OutputGradients]:
        return {VECTORS: OutputGradients(self.codes, gradients_of(self.codes, self.residual), examples)}


def bias_of(outputs: Floats) -> np.float32:
    return np.float32(outputs.sum(dtype=np.float32))


def gradients_of(codes: Codes, residual: np.float32) -> Floats:
    return np.full((len(codes), 1), residual, np.float32)


def weight_after(weight: Floats, given: Sequence[tuple[Codes, np.float32]], examples: int, num_shards: int) -> Floats:
    """Return the weight after a step.

    Args:
        given: of each worker, in order, its vectors and its residual.
    """
    run, parts = run_length(COUNT, num_shards), []
    for shard in range(num_shards):
        total, taken = np.zeros((COUNT + 2, 1), np.float32), np.zeros(COUNT + 2, np.bool_)
        for codes, residual in given:
            own = owners(codes, run, num_shards) == shard
            total[codes[own]] += gradients_of(codes[own], residual)
            taken[codes[own]] = True
        if len(codes := np.flatnonzero(taken).astype(np.int32)):
            parts.append(np.asarray(NETWORK.gradients({}, codes, total[codes])[PIECE]))
    mean = functools.reduce(operator.add, parts) / np.float32(examples) if parts else np.zeros(1, np.float32)
    return moved(weight, mean)
