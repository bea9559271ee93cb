"""Running the networks of one shard over the vectors that it owns."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from ..messages import Arrays, Floats, Push
from .network_messages import Codes, NetworkGradient, OutputsAsked
from .steps import ParameterSteps


class ShardNetwork(Protocol):
    """A network over vectors with ids.

    Attributes:
        dim: of its outputs.
        count: of codes: they are 1 to count - 1.
        names: the pieces of its parameters.
    """

    dim: int
    count: int
    names: Sequence[str]

    def outputs(self, parameters: Arrays, codes: Codes) -> Floats:
        """Return float32[k, dim] for the vectors of codes int32[k], ascending."""
        ...

    def gradients(self, parameters: Arrays, codes: Codes, gradients: Floats) -> Arrays:
        """Return the gradients of the pieces, of those of outputs; it computes the outputs again."""
        ...


Networks = Mapping[str, ShardNetwork]
"""By the name of vectors."""


class NetworkPeers(Protocol):
    """All shards, as holders of the networks' parameters."""

    def parameters(self, after: int) -> Arrays:
        """Return all pieces as they are after so many steps."""
        ...

    def send(self, gradient: NetworkGradient) -> None:
        """Send each holder its part of a step; returns when all have it."""
        ...

    def close(self) -> None:
        """Let go of them."""
        ...


class LocalPeers:
    """Shards in this process."""

    def __init__(self, steps: Sequence[ParameterSteps]) -> None:
        self._steps = [one for one in steps if one.names]

    def parameters(self, after: int) -> Arrays:
        """See NetworkPeers."""
        return {name: values for one in self._steps for name, values in one.values(after).items()}

    def send(self, gradient: NetworkGradient) -> None:
        """See NetworkPeers."""
        for one in self._steps:
            one.take(part_of(gradient, one.names))

    def close(self) -> None:
        """See NetworkPeers."""


def part_of(gradient: NetworkGradient, names: Sequence[str]) -> NetworkGradient:
    """Return what of a step concerns some pieces."""
    own = {name: gradient.gradients[name] for name in names if name in gradient.gradients}
    return gradient._replace(gradients=own)


class NetworkRuns:
    """The networks of one shard: forward for pulls, and forward and backward once more for pushes; it keeps nothing between.

    Args:
        number: of the shard.
        networks: over the vectors that it owns.
        steps: of the parameters that it holds.
        peers: all shards; asked once, when the first worker has found them.
    """

    def __init__(self, number: int, networks: Networks, steps: ParameterSteps, peers: Callable[[], NetworkPeers]) -> None:
        self.number, self.networks, self.steps = number, networks, steps
        self._found = peers
        self._peers: NetworkPeers | None = None
        self._step = 0
        self._known: tuple[int, Arrays] = (-1, {})
        self._lock = threading.Lock()

    @property
    def names(self) -> frozenset[str]:
        """The pieces of all networks."""
        return frozenset(name for network in self.networks.values() for name in network.names)

    def outputs(self, asked: Sequence[OutputsAsked]) -> list[dict[str, Floats]]:
        """Return what each of some requests asks for, of parameters as they are after the steps so far; each vector is computed
        once for all."""
        with self._lock:
            parameters = self._parameters()
            found: list[dict[str, Floats]] = [{} for _ in asked]
            for name, network in self.networks.items():
                all_codes = distinct([one.codes[name] for one in asked])
                empty = np.zeros((0, network.dim), np.float32)
                made = network.outputs(parameters, all_codes) if len(all_codes) else empty
                for own, one in zip(found, asked, strict=True):
                    own[name] = made[np.searchsorted(all_codes, one.codes[name])]
            return found

    def learn(self, pushes: Sequence[Push]) -> None:
        """Make a step: send the holders of parameters what the vectors of this shard contribute to their gradient.

        Args:
            pushes: of all workers of the step, in their order.
        """
        with self._lock:
            parameters, gradients, examples = self._parameters(), dict[str, Any](), 0
            for name, network in self.networks.items():
                given = [push.outputs[name] for push in pushes if name in push.outputs]
                examples = sum(one.examples for one in given)
                all_codes = distinct([one.codes for one in given])
                if len(all_codes):
                    total = np.zeros((len(all_codes), network.dim), np.float32)
                    for one in given:
                        total[np.searchsorted(all_codes, one.codes)] += one.gradients
                    gradients |= network.gradients(parameters, all_codes, total)
            self._all().send(NetworkGradient(self.number, self._step, gradients, examples))
            self._step += 1

    def _parameters(self) -> Arrays:
        if self._known[0] != self._step:
            self._known = self._step, self._all().parameters(self._step)
        return self._known[1]

    def _all(self) -> NetworkPeers:
        if self._peers is None:
            self._peers = self._found()
        return self._peers

    def end(self) -> None:
        """Wake all that wait for a step."""
        self.steps.end()

    def close(self) -> None:
        """Let go of the other shards."""
        if self._peers is not None:
            self._peers.close()


def distinct(codes: Sequence[Codes]) -> Codes:
    """Return all codes of several, ascending."""
    if len(codes) == 1:
        return codes[0]
    return np.unique(np.concatenate(codes)) if codes else np.empty(0, np.int32)
