"""Networks that shards run: outputs and gradients of outputs travel, and parameters change once a step, whatever the timing."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import optax
import pytest
from numpy.typing import NDArray

from tests.ps.serving import HOST, SECRET
from tests.ps.test_remote_client import PROGRAMS
from xpsql.platform.errors import LostError, TrainingError
from xpsql.platform.operators.base import DenseSpec
from xpsql.platform.ps._native import Store
from xpsql.platform.ps.client import Client, LocalClient
from xpsql.platform.ps.dense import DenseProgram
from xpsql.platform.ps.gang import Gang
from xpsql.platform.ps.lifecycle_table import tables_of
from xpsql.platform.ps.messages import Arrays, OutputGradients, Push, Touched
from xpsql.platform.ps.networks.network_messages import Codes, NetworkGradient, OutputsAsked
from xpsql.platform.ps.networks.network_shards import NetworkShards, owners, run_length
from xpsql.platform.ps.networks.runs import LocalPeers, NetworkRuns
from xpsql.platform.ps.networks.steps import ParameterSteps
from xpsql.platform.ps.remote import RemoteClient, RemotePeers
from xpsql.platform.ps.service import shard_handlers
from xpsql.platform.ps.shard import Shard
from xpsql.platform.ps.transport.server import Server
from xpsql.platform.ps.transport.sockets import Address

COUNT, ELEMENTS, DIM, RATE = 400, 1024, 4, 0.1
DENSE = DenseProgram([DenseSpec("net", (ELEMENTS, DIM)), DenseSpec("other", (3,))], optax.sgd(RATE), 7)
SIZES = {"net": ELEMENTS * DIM}
EMPTY = np.empty(0, np.uint32)


class Linear:
    """A network of one matrix."""

    dim, count, names = DIM, COUNT + 2, ("net",)

    def __init__(self) -> None:
        self.vectors = np.random.default_rng(2).normal(size=(COUNT + 2, ELEMENTS)).astype(np.float32)

    def outputs(self, parameters: Arrays, codes: Codes) -> NDArray[np.float32]:
        return self.vectors[codes] @ np.asarray(parameters["net"])

    def gradients(self, parameters: Arrays, codes: Codes, gradients: NDArray[np.float32]) -> Arrays:
        return {"net": self.vectors[codes].T @ gradients}


NETWORK = Linear()


def ignored(workers: Sequence[int], seconds: float) -> None:
    """Where nobody minds who is slow."""


def gangs_of(num_shards: int, num_workers: int, hybrid: bool = False) -> list[Gang]:
    shards = [Shard(tables_of(PROGRAMS, Store), DENSE.part(n, num_shards), str) for n in range(num_shards)]
    steps = [ParameterSteps(shard, [n for n in shard.dense.names if n in SIZES], num_shards) for shard in shards]
    runs = [NetworkRuns(n, {"v": NETWORK}, one, lambda: LocalPeers(steps)) for n, one in enumerate(steps)]
    return [Gang(shard, num_workers, ignored, hybrid, run) for shard, run in zip(shards, runs, strict=True)]


def kernel(gangs: Sequence[Gang]) -> NDArray[np.float32]:
    return np.asarray(next(gang.shard.dense.pull()["net"] for gang in gangs if "net" in gang.shard.dense.names))


def batch(worker: int, step: int) -> tuple[Codes, NDArray[np.float32], int]:
    """Return what a worker asks for in a step, the gradients of that, and its examples."""
    random = np.random.default_rng((worker, step))
    codes = np.unique(random.integers(1, COUNT + 2, 30)).astype(np.int32)
    return codes, random.normal(size=(len(codes), DIM)).astype(np.float32), int(random.integers(5, 9))


def push_of(worker: int, outputs: dict[str, OutputGradients]) -> Push:
    touched = Touched(np.empty(0, np.uint64), np.empty(0, np.uint16), EMPTY, EMPTY, 0, examples=1)
    gradients = {"weights": np.zeros((64, 1), np.float32), "vectors": np.zeros((64, 4), np.float32)}
    return Push(touched, {"vectors": EMPTY}, gradients, worker=worker, outputs=outputs)


def work(client: Client, networks: NetworkShards, worker: int, steps: int, seen: list[Any]) -> None:
    for step in range(steps):
        codes, gradients, examples = batch(worker, step)
        seen.append(networks.start(worker, {"v": codes}, False).result().values["v"])
        client.push(push_of(worker, {"v": OutputGradients(codes, gradients, examples)}))
    client.leave(worker)


def expected(steps: Sequence[int]) -> tuple[list[list[NDArray[np.float32]]], NDArray[np.float32]]:
    """Return what workers see that make so many steps each, and the kernel at the end."""
    (held,) = (gang.shard.dense.pull()["net"] for gang in gangs_of(1, 1))
    w, seen = np.asarray(held).copy(), [list[NDArray[np.float32]]() for _ in steps]
    for step in range(max(steps)):
        total, examples = np.zeros((COUNT + 2, DIM), np.float32), 0
        for worker in (n for n, own in enumerate(steps) if step < own):
            codes, gradients, own = batch(worker, step)
            seen[worker].append(NETWORK.vectors[codes] @ w)
            total[codes] += gradients
            examples += own
        w -= np.float32(RATE) * (NETWORK.vectors.T @ total) / examples
    return seen, w


def run(clients: Sequence[tuple[Client, NetworkShards]], steps: Sequence[int]) -> list[list[Any]]:
    seen: list[list[Any]] = [[] for _ in steps]
    threads = [
        threading.Thread(target=work, args=(*client, worker, own, seen[worker]))
        for worker, (client, own) in enumerate(zip(clients, steps, strict=True))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    return seen


def check(seen: list[list[Any]], steps: Sequence[int], gangs: Sequence[Gang]) -> None:
    wanted, w = expected(steps)
    for found, own in zip(seen, wanted, strict=True):
        assert len(found) == len(own)
        for one, other in zip(found, own, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(kernel(gangs), w, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("hybrid", [False, True])
@pytest.mark.parametrize(("num_shards", "steps"), [(1, [4]), (3, [5, 3, 5]), (4, [2, 6])])
def test_workers_that_end_at_different_steps_learn_what_numpy_does(num_shards: int, steps: list[int], hybrid: bool) -> None:
    gangs = gangs_of(num_shards, len(steps), hybrid)
    clients = []
    for _ in steps:
        client = LocalClient(gangs)
        clients.append((client, client.run_networks(SIZES, {"v": COUNT})))
    check(run(clients, steps), steps, gangs)


def test_results_are_equal_to_the_bit_however_late_anybody_is() -> None:
    found = []
    for seed in range(3):
        random, gangs = np.random.default_rng(seed), gangs_of(3, 3)
        for gang in gangs:
            made = gang.push

            def late(push: Push, made: Callable[[Push], None] = made, random: Any = random) -> None:
                time.sleep(random.random() / 200)
                made(push)

            gang.push = late  # type: ignore[method-assign]
        client = LocalClient(gangs)
        run([(client, client.run_networks(SIZES, {"v": COUNT}))] * 3, [4, 4, 4])
        found.append(kernel(gangs))
    assert np.array_equal(found[0], found[1])
    assert np.array_equal(found[0], found[2])


class Relay:
    """Passes on what a client and a server say, and counts it."""

    def __init__(self, server: Address) -> None:
        self._server, self.up, self.down = server, 0, 0
        self._listener = socket.create_server((HOST, 0))
        self.address = Address(HOST, self._listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection((self._server.host, self._server.port))
                for ends in ((client, server, "up"), (server, client, "down")):
                    threading.Thread(target=self._copy, args=ends, daemon=True).start()

    def _copy(self, source: socket.socket, target: socket.socket, way: str) -> None:
        with contextlib.suppress(OSError):
            while piece := source.recv(1 << 16):
                setattr(self, way, getattr(self, way) + len(piece))
                target.sendall(piece)
            target.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self._listener.close()


@contextmanager
def served(num_shards: int, num_workers: int) -> Iterator[tuple[list[Gang], list[Address]]]:
    """Serve shards that reach each other through sockets."""
    shards = [Shard(tables_of(PROGRAMS, Store), DENSE.part(n, num_shards), str) for n in range(num_shards)]
    names, addresses = [[n for n in own if n in SIZES] for own in DENSE.dealt(num_shards)], list[Address]()
    with ExitStack() as stack:

        def peers() -> RemotePeers:
            return RemotePeers(RemoteClient(addresses, SECRET), names, 60)

        gangs = []
        for number, shard in enumerate(shards):
            run = NetworkRuns(number, {"v": NETWORK}, ParameterSteps(shard, names[number], num_shards), peers)
            stack.callback(run.close)
            gangs.append(Gang(shard, num_workers, ignored, False, run))
            server = stack.enter_context(Server(f"shard {number}", shard_handlers(gangs[-1]), SECRET, HOST))
            addresses.append(server.address)
        yield gangs, addresses


def test_behind_servers_it_is_the_same() -> None:
    with served(3, 2) as (gangs, addresses), ExitStack() as stack:
        clients = [stack.enter_context(RemoteClient(addresses, SECRET)) for _ in range(2)]
        seen = run([(client, client.run_networks(SIZES, {"v": COUNT})) for client in clients], [4, 3])
        check(seen, [4, 3], gangs)


def test_a_batch_moves_outputs_and_their_gradients_and_nothing_of_vectors_or_parameters() -> None:
    steps, codes = 20, sum(len(batch(0, step)[0]) for step in range(20))
    with served(1, 1) as (_, (address,)):
        relay = Relay(address)
        with RemoteClient([relay.address], SECRET) as client:
            networks = client.run_networks(SIZES, {"v": COUNT})
            client.pull(np.empty(0, np.uint64), 64)
            before = relay.up, relay.down
            work(client, networks, 0, steps, [])
            moved = relay.up - before[0], relay.down - before[1]
        relay.close()
    pushes = (64 * 1 + 64 * 4) * 4  # rows of the push, which has none
    up, down = codes * (4 + 4 + 4 * DIM), codes * 4 * DIM
    assert up <= moved[0] <= up + steps * (pushes + 1500)
    assert down <= moved[1] <= down + steps * 512
    assert sum(moved) < codes * ELEMENTS * 4 / 10


def test_a_pull_leaves_the_parameters_of_networks_with_the_shards() -> None:
    with served(1, 1) as (_, addresses), RemoteClient(addresses, SECRET) as client:
        assert set(client.pull(np.empty(0, np.uint64), 64).dense) == {"net", "other"}
        client.run_networks(SIZES, {"v": COUNT})
    with served(1, 1) as (_, addresses), RemoteClient(addresses, SECRET) as client:
        client.run_networks(SIZES, {"v": COUNT})
        assert set(client.pull(np.empty(0, np.uint64), 64).dense) == {"other"}
        assert set(client.start_pull_dense().result().dense) == {"other"}


def steps_of_two() -> ParameterSteps:
    (gang,) = gangs_of(1, 1)
    return ParameterSteps(gang.shard, ["net"], 2)


def gradient(shard: int, step: int, value: float = 1.0) -> NetworkGradient:
    return NetworkGradient(shard, step, {"net": np.full((ELEMENTS, DIM), value, np.float32)}, 10)


def test_a_gradient_that_comes_twice_changes_parameters_once() -> None:
    steps = steps_of_two()
    before = np.asarray(steps.values(0)["net"])
    for one in (gradient(1, 0, 2.0), gradient(1, 0, 2.0), gradient(0, 0, 1.0), gradient(0, 0, 1.0), gradient(1, 0, 2.0)):
        steps.take(one)
    np.testing.assert_allclose(np.asarray(steps.values(1)["net"]), before - RATE * 3.0 / 10, rtol=1e-5)


def test_a_step_that_no_vector_took_part_in_is_one_of_zeros() -> None:
    steps = steps_of_two()
    before = np.asarray(steps.values(0)["net"])
    for shard in range(2):
        steps.take(NetworkGradient(shard, 0, {}, 10))
    assert np.array_equal(np.asarray(steps.values(1)["net"]), before)


def test_a_gradient_that_does_not_fit_is_refused() -> None:
    steps = steps_of_two()
    for wrong, said in (
        (gradient(0, 1), "of step 0 by one of 2 shards, got one of step 1"),
        (gradient(2, 0), "by shard 2"),
        (NetworkGradient(0, 0, {"other": np.zeros(3, np.float32)}, 1), "other"),
        (NetworkGradient(0, 0, {"net": np.zeros(3, np.float32)}, 1), "net"),
    ):
        with pytest.raises(TrainingError, match=said):
            steps.take(wrong)


def test_whoever_waits_for_a_step_is_woken_when_the_shard_ends() -> None:
    steps, failed = steps_of_two(), threading.Event()

    def wait() -> None:
        with pytest.raises(LostError):
            steps.values(1)
        failed.set()

    waiting = threading.Thread(target=wait)
    waiting.start()
    steps.end()
    waiting.join(10)
    assert failed.is_set()


def test_a_batch_that_is_only_scored_waits_for_nobody() -> None:
    first = gangs_of(1, 2)[0]
    codes = np.array([1, 5], np.int32)
    assert first.outputs(OutputsAsked(0, {"v": codes}, True)).values["v"].shape == (2, DIM)


@pytest.mark.parametrize("codes", [[0, 3], [3, 3], [5, 2], [COUNT + 2]])
def test_codes_that_no_vector_has_are_refused(codes: list[int]) -> None:
    with served(1, 1) as (_, addresses), RemoteClient(addresses, SECRET) as client:
        networks = client.run_networks(SIZES, {"v": COUNT})
        wrong = np.array(codes, np.int32)
        with pytest.raises(TrainingError, match=r"codes? of v"):
            networks.start(0, {"v": wrong}, False).result()
        gradients = OutputGradients(wrong, np.zeros((len(codes), DIM), np.float32), 1)
        with pytest.raises(TrainingError, match=r"codes? of v"):
            client.push(push_of(0, {"v": gradients}))
        with pytest.raises(TrainingError, match="vectors"):
            client.push(push_of(0, {}))


def test_every_vector_has_one_owner_and_shards_own_about_as_many() -> None:
    for count, num_shards in ((1, 3), (300, 3), (100_000, 7)):
        codes = np.arange(1, count + 2, dtype=np.int32)
        own = np.bincount(owners(codes, run_length(count, num_shards), num_shards), minlength=num_shards)
        assert own.sum() == count + 1
        assert own.max() - own.min() <= max(2, 0.1 * count / num_shards + 1)
