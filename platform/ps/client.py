"""How a worker reaches the shards: the protocol, and the client of shards in the same process. See remote.py for servers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

from ..functions import READINGS
from .compiled.ladder import Ladder
from .gang import Gang, own_shard
from .keyed import Find, KeyedAnswer, KeyedRequest, ShardReadings
from .messages import Floats, Keys, Pulled, Push
from .networks.network_messages import OutputsAsked, OutputsMade
from .networks.network_shards import NetworkShards as NetworkShards
from .placement import Placement, dealt, merged, merged_dense, parts_of, put_together
from .shard import Shard

MOST_AHEAD = 4
"""So many pulls come at most between that of a batch and its push."""

A = TypeVar("A")
A_co = TypeVar("A_co", covariant=True)


class Handle(Protocol[A_co]):
    """The pending result of a started request (a future)."""

    def result(self) -> A_co:
        """Wait for the answer and return it.

        Raises:
            TrainingError: the shard refused, is lost, or does not answer in time.
        """
        ...


class Client(Protocol):
    """Pulls and pushes the rows of one batch, whose keys are unique, and the dense parameters.

    Requests may be started ahead (pipelined); a client's requests are carried out in the order in which they were started. The
    arrays of a started push must not change before its result, nor keys as long as they are in use. A client serves one worker
    and is not thread-safe.
    """

    def pull(self, keys: Keys, size: int) -> Pulled:
        """Return the rows of keys uint64[n], padded with zeros to `size`, and all dense parameters."""
        ...

    def push(self, push: Push) -> None:
        """Apply one batch's updates on every shard and return when all have acknowledged."""
        ...

    def start_pull(self, keys: Keys, size: int, dense: bool = True) -> Handle[Pulled]:
        """Start a pull; its dense parameters need not be there where they are not asked for."""
        ...

    def start_pull_dense(self) -> Handle[Pulled]:
        """Start a pull of the dense parameters alone."""
        ...

    def start_push(self, push: Push) -> Handle[object]:
        """Start a push."""
        ...

    def fold_rows(self, request: KeyedRequest) -> Floats:
        """Return a few numbers of each of some rows, float32[n, width], in place of the rows."""
        ...

    def leave(self, worker: int) -> None:
        """Notify every shard that a worker pushes no more."""
        ...


class Port(Protocol):
    """One shard, as a client sees it."""

    def start_pull(self, keys: Keys, size: int, padded: bool, dense: bool) -> Handle[Pulled]:
        """Start a pull of keys that are all this shard's; see service.Pull."""
        ...

    def start_pull_dense(self) -> Handle[Pulled]:
        """Start a pull of this shard's dense parameters."""
        ...

    def start_push(self, push: Push) -> Handle[object]:
        """Start a push of keys that are all this shard's."""
        ...

    def start_fold_rows(self, request: KeyedRequest) -> Handle[KeyedAnswer]:
        """Start a keyed read of keys that are all this shard's."""
        ...

    def start_leave(self, worker: int) -> Handle[object]:
        """Start notifying the shard that a worker pushes no more."""
        ...


class Sharded:
    """A client of one or more shards; requests go to all before answers are awaited.

    Args:
        ports: the shards in order; each holds an equal run of the 1024 slices.

    Attributes:
        networks: over vectors with ids, where shards run them: they keep the parameters to themselves; None: workers do.
    """

    def __init__(self, ports: Sequence[Port]) -> None:
        self._ports = tuple(ports)
        self._ladder = Ladder()
        self._placed: tuple[Placement, ...] = ()
        self.networks: NetworkShards | None = None

    def pull(self, keys: Keys, size: int) -> Pulled:
        """See Client."""
        return self.start_pull(keys, size).result()

    def push(self, push: Push) -> None:
        """See Client."""
        self.start_push(push).result()

    def start_pull(self, keys: Keys, size: int, dense: bool = True) -> Handle[Pulled]:
        """See Client."""
        if len(self._ports) == 1:
            return self._ports[0].start_pull(keys, size, True, dense)
        placement = self._placement(keys)
        own = zip(self._ports, placement.keys, placement.sizes, strict=True)
        parts = [port.start_pull(part, padded, False, dense) for port, part, padded in own]
        return Merging(parts, placement, size)

    def start_pull_dense(self) -> Handle[Pulled]:
        """See Client."""
        return MergingDense([port.start_pull_dense() for port in self._ports])

    def start_push(self, push: Push) -> Handle[object]:
        """See Client."""
        if len(self._ports) == 1:
            return self._ports[0].start_push(push)
        placement = self._placement(push.touched.keys)
        sizes, networks = {name: values.size for name, values in push.dense.items()}, self.networks
        parts = parts_of(push, placement, dealt(sizes if networks is None else sizes | networks.sizes, len(self._ports)))
        if networks is not None:
            parts = networks.parts(push, parts)
        return All([port.start_push(part) for port, part in zip(self._ports, parts, strict=True)])

    def fold_rows(self, request: KeyedRequest) -> Floats:
        """See Client."""
        if len(self._ports) == 1:
            return self._ports[0].start_fold_rows(request).result().values
        placement = Placement(request.keys, len(self._ports), self._ladder)
        parts = [
            port.start_fold_rows(request._replace(keys=own)) for port, own in zip(self._ports, placement.keys, strict=True)
        ]
        return put_together([part.result().values for part in parts], placement)

    def _placement(self, keys: Keys) -> Placement:
        """Return which shard each key belongs to; a push has the keys of one of the last pulls."""
        placed = next((placed for placed in self._placed if placed.of is keys), None)
        if placed is None:
            placed = Placement(keys, len(self._ports), self._ladder)
            self._placed = (*self._placed[-MOST_AHEAD:], placed)
        return placed

    def leave(self, worker: int) -> None:
        """See Client."""
        All([port.start_leave(worker) for port in self._ports]).result()


class Merging(NamedTuple):
    """A pull from several shards on its way."""

    parts: Sequence[Handle[Pulled]]
    placement: Placement
    size: int

    def result(self) -> Pulled:
        """See Handle."""
        return merged([part.result() for part in self.parts], self.placement, self.size)


class MergingDense(NamedTuple):
    """A pull of dense parameters from several shards on its way."""

    parts: Sequence[Handle[Pulled]]

    def result(self) -> Pulled:
        """See Handle."""
        return merged_dense([part.result() for part in self.parts])


class All(NamedTuple):
    """Requests to several shards on their way."""

    parts: Sequence[Handle[object]]

    def result(self) -> None:
        """See Handle."""
        for part in self.parts:
            part.result()


class ReadyAnswer(NamedTuple, Generic[A]):
    """An answer that is ready."""

    answer: A

    def result(self) -> A:
        """See Handle."""
        return self.answer


class LocalPort(NamedTuple):
    """A shard in this process: requests are carried out as they are started."""

    shard: Shard | Gang
    readings: ShardReadings

    def start_pull(self, keys: Keys, size: int, padded: bool, dense: bool) -> Handle[Pulled]:
        """See Port; the answer is padded in any case, and has the dense parameters."""
        return ReadyAnswer(self.shard.pull(keys, size))

    def start_pull_dense(self) -> Handle[Pulled]:
        """See Port."""
        return ReadyAnswer(self.shard.pull_dense())

    def start_push(self, push: Push) -> Handle[object]:
        """See Port."""
        self.shard.push(push)
        return ReadyAnswer(None)

    def start_fold_rows(self, request: KeyedRequest) -> Handle[KeyedAnswer]:
        """See Port."""
        return ReadyAnswer(self.readings.answer(request))

    def start_outputs(self, asked: OutputsAsked) -> Handle[OutputsMade]:
        """See OutputsPort."""
        assert isinstance(self.shard, Gang)
        return ReadyAnswer(self.shard.outputs(asked))

    def start_leave(self, worker: int) -> Handle[object]:
        """See Port."""
        self.shard.leave(worker)
        return ReadyAnswer(None)


class LocalClient(Sharded):
    """Direct calls to shards in this process; thread-safe, unlike others.

    Args:
        shards: each holds an equal run of the 1024 slices.
        find: returns the readings that there are, by name.
    """

    def __init__(self, shards: Sequence[Shard | Gang], find: Find = READINGS.find) -> None:
        self._local = [LocalPort(shard, ShardReadings(own_shard(shard), find)) for shard in shards]
        super().__init__(self._local)
        self.shards = tuple(shards)

    def run_networks(self, sizes: dict[str, int], counts: Mapping[str, int]) -> NetworkShards:
        """Ask shards for what networks make of vectors from now on; see NetworkShards."""
        self.networks = NetworkShards(self._local, sizes, counts)
        return self.networks
