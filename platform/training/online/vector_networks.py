"""Networks over vectors with ids, where shards run them: what a shard computes, and what a worker asks for and pushes."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray

from ....algorithms.inputs import SideVectors
from ....algorithms.layers.side_network import SideNetwork
from ....algorithms.side_vectors import made_name
from ...input.batches import Batch
from ...input.columns import Columns
from ...input.side.table import FIRST, LACKING, SideTable
from ...ps.client import LocalClient
from ...ps.messages import Arrays, Floats, OutputGradients
from ...ps.networks.network_messages import Codes
from ...ps.networks.network_shards import NetworkShards, PendingOutputs
from ...ps.networks.runs import LocalPeers, NetworkRuns, Networks, ShardNetwork
from ...ps.networks.steps import ParameterSteps
from ...ps.pieces import DensePiece, joined
from ...ps.shard import Shard
from ..recipe import Recipe
from .step import KEPT

if TYPE_CHECKING:
    from ...ps.transport.base import ShardsClient


class VectorNetwork:
    """A network over vectors with ids, as a shard runs it; see ShardNetwork. Sizes are padded as a worker pads them."""

    def __init__(self, network: SideNetwork, table: SideTable, recipe: Recipe) -> None:
        own = {spec.name for spec in network.specs}
        pieces = tuple(piece for piece in recipe.dense.pieces.values() if piece.of in own)
        self.dim, self.count = network.dim, FIRST + len(table)
        self.names: Sequence[str] = [piece.name for piece in pieces]
        self._table = table
        self._forward, self._backward = programs(network, tuple(piece for piece in pieces if not piece.whole))

    def outputs(self, parameters: Arrays, codes: Codes) -> Floats:
        """See ShardNetwork."""
        values, lines = self._values(codes)
        return np.asarray(self._forward(self._own(parameters), values))[lines]

    def gradients(self, parameters: Arrays, codes: Codes, gradients: Floats) -> Arrays:
        """See ShardNetwork."""
        values, lines = self._values(codes)
        padded = np.zeros((len(values), self.dim), np.float32)
        padded[lines] = gradients
        found = self._backward(self._own(parameters), values, padded)
        return {name: np.asarray(found[name]) for name in self.names}

    def _own(self, parameters: Arrays) -> dict[str, Any]:
        return {name: parameters[name] for name in self.names}

    def _values(self, codes: Codes) -> tuple[NDArray[np.float32], slice]:
        """Return padded vectors, and the lines of those of codes."""
        vectors = codes[np.searchsorted(codes, FIRST) :]
        lacking = len(codes) - len(vectors)
        values = self._table.values(vectors, self._table.ladder.size(FIRST + len(vectors)))
        return values, slice(FIRST - lacking, FIRST + len(vectors))


@functools.lru_cache(maxsize=KEPT)
def programs(network: SideNetwork, cut: tuple[DensePiece, ...]) -> tuple[Any, Any]:
    """Return the jitted programs (pieces, values) -> outputs, and (pieces, values, gradients of outputs) -> those of pieces."""

    def forward(parameters: Mapping[str, Any], values: Any) -> jax.Array:
        return network.apply(joined(cut, parameters), values)

    def backward(parameters: Mapping[str, Any], values: Any, gradients: Any) -> Any:
        (found,) = jax.vjp(lambda own: forward(own, values), parameters)[1](gradients)
        return found

    return jax.jit(forward), jax.jit(backward)


def networks_of(recipe: Recipe, columns: Columns) -> Networks:
    """Return the networks over the vectors of a training, by their names."""
    made: dict[str, ShardNetwork] = {}
    for network, side in zip(recipe.algorithm.sides, columns.sides, strict=True):
        made[side.name] = VectorNetwork(network, SideTable(side, False), recipe)
    return made


def sizes_of(recipe: Recipe) -> dict[str, int]:
    """Return how many floats each piece of the networks' parameters has."""
    own = {spec.name for network in recipe.algorithm.sides for spec in network.specs}
    specs, pieces = recipe.dense.specs, recipe.dense.pieces.values()
    return {one.name: int(np.prod(one.shape(specs[one.of].shape))) for one in pieces if one.of in own}


def local_runs(recipe: Recipe, columns: Columns, shards: Sequence[Shard]) -> list[NetworkRuns]:
    """Return the networks of each of some shards in this process."""
    networks, own = networks_of(recipe, columns), sizes_of(recipe)
    steps = [ParameterSteps(shard, [n for n in shard.dense.names if n in own], len(shards)) for shard in shards]
    return [NetworkRuns(number, networks, one, lambda: LocalPeers(steps)) for number, one in enumerate(steps)]


def asked_of(client: LocalClient | ShardsClient, recipe: Recipe, columns: Columns) -> NetworkShards:
    """Let a client ask shards for outputs from now on."""
    return client.run_networks(sizes_of(recipe), {side.name: len(SideTable(side, False)) for side in columns.sides})


class BatchOutputs(NamedTuple):
    """What a batch needs of the networks that shards run, on its way.

    Attributes:
        codes: by the name of vectors, those that are asked for.
        inputs: for each network, which output each row has.
        sizes: by the name of vectors, to how many lines outputs are padded.
    """

    pending: PendingOutputs
    codes: dict[str, Codes]
    inputs: tuple[SideVectors, ...]
    sizes: dict[str, int]

    def parameters(self) -> dict[str, Floats]:
        """Return outputs as the step takes them: those of a batch's distinct vectors from line FIRST on."""
        found = {}
        for name, values in self.pending.result().values.items():
            whole = np.zeros((self.sizes[name], values.shape[1]), np.float32)
            whole[self._lines(name)] = values
            found[made_name(name)] = whole
        return found

    def gradients(self, gradients: dict[str, Any], examples: int) -> dict[str, OutputGradients]:
        """Take the gradients of outputs out of those of parameters."""
        own = {name: gradients.pop(made_name(name)) for name in self.codes}
        return {name: OutputGradients(self.codes[name], own[name][self._lines(name)], examples) for name in own}

    def _lines(self, name: str) -> slice:
        codes = self.codes[name]
        lacking = int(len(codes) > 0 and codes[0] == LACKING)
        return slice(FIRST - lacking, FIRST - lacking + len(codes))


def start_outputs(batch: Batch, names: Sequence[str], networks: NetworkShards, worker: int) -> BatchOutputs:
    """Ask shards for what networks make of the vectors of a batch.

    Args:
        names: of vectors, in the order of the batch's.
    """
    codes, inputs, sizes = dict[str, Codes](), list[SideVectors](), dict[str, int]()
    for name, rows in zip(names, batch.sides, strict=True):
        distinct, of_row = rows.lines(batch.size)
        lacking = bool((rows.codes == LACKING).any())
        codes[name] = np.concatenate([np.array([LACKING], np.int32), distinct]) if lacking else distinct
        inputs.append(SideVectors(None, of_row))  # type: ignore[arg-type]
        sizes[name] = rows.table.ladder.size(FIRST + len(distinct))
    pending = networks.start(worker, codes, batch.applied)
    return BatchOutputs(pending, codes, tuple(inputs), sizes)
