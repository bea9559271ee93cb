"""Shards behind servers give what shards in the process give, bit for bit, to any number of workers, or a clear error."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import optax
import pytest
from numpy.typing import NDArray

from tests.cases import costly, costly_after_first, lengthy
from tests.ps.serving import HOST, SECRET, tcp
from xpsql.platform.errors import TrainingError
from xpsql.platform.operators.adagrad import AdagradOptions, adagrad
from xpsql.platform.operators.base import DenseSpec, TableSpec
from xpsql.platform.operators.chains import chain
from xpsql.platform.operators.ftrl import FtrlOptions, ftrl
from xpsql.platform.operators.safety import SafetyOptions, safety
from xpsql.platform.operators.staleness_discount import StalenessDiscountOptions, staleness_discount
from xpsql.platform.ps._native import Store
from xpsql.platform.ps.client import Client, LocalClient
from xpsql.platform.ps.compiled.table_programs import Programs
from xpsql.platform.ps.dense import DenseProgram
from xpsql.platform.ps.keys import NUM_SLICES
from xpsql.platform.ps.lifecycle_table import tables_of
from xpsql.platform.ps.messages import BatchId, Pulled, Push, Touched
from xpsql.platform.ps.remote import RemoteClient
from xpsql.platform.ps.service import PULL, Pull, shard_handlers
from xpsql.platform.ps.shard import Shard
from xpsql.platform.ps.transport.server import Server
from xpsql.platform.ps.transport.sockets import Address
from xpsql.platform.ps.transport.wire import Handler

WEIGHTS, VECTORS = TableSpec("weights", 1), TableSpec("vectors", 4)
STRICT = safety(SafetyOptions(max_gradient=5.0, on_violation="fail"), WEIGHTS)
PROGRAMS = (
    Programs(WEIGHTS, chain(STRICT, ftrl(FtrlOptions(), WEIGHTS)), 7),
    Programs(VECTORS, chain(staleness_discount(StalenessDiscountOptions(), VECTORS), adagrad(AdagradOptions(), VECTORS)), 7),
)
LAYERS = {"kernel": (8, 4), "bias": (4,), "empty": (0, 3)}
DENSE = DenseProgram([DenseSpec(name, shape) for name, shape in LAYERS.items()], optax.adam(0.1), 7)
ROOT = Path(__file__).parents[2]

# A process that serves a shard, prints where it listens, and ends when its input does.
PROCESS = """
import sys
from tests.ps.serving import SECRET, HOST
from tests.ps.test_remote_client import new_shard
from xpsql.platform.ps.transport.server import Server
from xpsql.platform.ps.service import PULL, Pull, shard_handlers
with Server("the shard", shard_handlers(new_shard(*map(int, sys.argv[1:]))), SECRET, HOST) as server:
    print(server.address.port, server.address.unix, flush=True)
    sys.stdin.read()
"""


def new_shard(number: int = 0, num_shards: int = 1) -> Shard:
    return Shard(tables_of(PROGRAMS, Store), DENSE.part(number, num_shards), lambda number: f"slot{number}")


def new_shards(num_shards: int) -> list[Shard]:
    return [new_shard(number, num_shards) for number in range(num_shards)]


@contextmanager
def served(shards: list[Shard], unix: bool = True) -> Iterator[list[Address]]:
    with ExitStack() as stack:
        servers = [
            stack.enter_context(Server(f"shard {number}", shard_handlers(shard), SECRET, HOST))
            for number, shard in enumerate(shards)
        ]
        yield [server.address if unix else tcp(server.address) for server in servers]


def random_keys(n: int, seed: int) -> NDArray[np.uint64]:
    return np.random.default_rng(seed).integers(0, 2**64, n, np.uint64)


def pushed(client: Client, keys: NDArray[np.uint64], seed: int, gradient: float = 1.0, batch: int = 0) -> Push:
    """Return a push of random gradients after a pull."""
    n, size = len(keys), len(keys) + 9
    random = np.random.default_rng(seed)
    gradients = {name: np.zeros((size, dim), np.float32) for name, dim in (("weights", 1), ("vectors", 4))}
    for values in gradients.values():
        values[:n] = gradient * random.uniform(-1, 1, (n, values.shape[1]))
    counts = random.integers(1, 5, n, np.uint32)
    slots, batch_id = random.integers(0, 9, n, np.uint16), BatchId(0, 0, 1, batch)
    touched = Touched(keys, slots, counts, counts // 2, 1000 + seed, batch_id, n, 1)
    dense = {name: random.normal(size=shape).astype(np.float32) for name, shape in LAYERS.items()}
    return Push(touched, client.pull(keys, size).updates, gradients, dense=dense)


def rows(shards: list[Shard]) -> dict[tuple[str, int], dict[str, bytes]]:
    found = {}
    for shard in shards:
        for name in ("weights", "vectors"):
            for keys, columns in shard.holding(name).dump(name, shard.now, range(NUM_SLICES)):
                for i, key in enumerate(keys.tolist()):
                    found[name, key] = {column: values[i].tobytes() for column, values in columns.items()}
    return found


@lengthy
@costly_after_first
@pytest.mark.parametrize(("num_shards", "unix"), [(1, True), (1, False), (2, True), (3, False), (5, True)])
def test_remote_shards_give_what_local_ones_give_bit_for_bit(num_shards: int, unix: bool) -> None:
    local_shards, remote_shards = (new_shards(num_shards) for _ in range(2))
    local = LocalClient(local_shards)
    pool = random_keys(500, 1)
    with served(remote_shards, unix) as addresses, RemoteClient(addresses, SECRET) as remote:
        for step in range(6):
            keys = np.random.default_rng(step).choice(pool, [0, 1, 40, 300, 2, 200][step], replace=False)
            pulled = [client.pull(keys, len(keys) + 5) for client in (local, remote)]
            for name in ("weights", "vectors"):
                np.testing.assert_array_equal(*[one.weights[name] for one in pulled])
            assert [list(one.updates) for one in pulled] == [["vectors"], ["vectors"]]  # no other chain asks for them
            np.testing.assert_array_equal(*[one.updates["vectors"] for one in pulled])
            for layer, shape in LAYERS.items():
                assert pulled[1].dense[layer].shape == shape
                np.testing.assert_array_equal(*[np.asarray(one.dense[layer]) for one in pulled])
            for client in (local, remote):
                client.push(pushed(client, keys, step, batch=step))
        assert [d.rows for d in remote.describe()] == list(map(len, local_shards))
        assert [d.now for d in remote.describe()] == [1005] * num_shards
    assert rows(remote_shards) == rows(local_shards)
    assert rows(remote_shards)


def test_requests_sent_ahead_are_carried_out_in_order() -> None:
    shards = new_shards(2)
    keys = random_keys(200, 2)
    with served(shards) as addresses, RemoteClient(addresses, SECRET) as client:
        push = pushed(client, keys, 3)
        before = client.start_pull(keys, 256)
        pushing = client.start_push(push)
        after = client.start_pull(keys, 256)
        assert after.result().weights["weights"].any()
        assert not before.result().weights["weights"].any()
        pushing.result()
        np.testing.assert_array_equal(client.pull(keys, 256).weights["vectors"], after.result().weights["vectors"])


def test_dense_parameters_are_sent_when_they_changed() -> None:
    shards, keys, sent = new_shards(2), random_keys(50, 2), list[list[int]]()

    def noting(shard: Shard) -> tuple[Handler[Any, Any], ...]:
        (pulls, *others), counts = shard_handlers(shard), list[int]()
        sent.append(counts)

        def answer(request: Pull) -> Pulled:
            answered: Pulled = pulls.answer(request)
            counts.append(len(answered.dense))
            return answered

        return Handler(PULL, answer), *others

    with ExitStack() as stack:
        servers = [stack.enter_context(Server("shard", noting(shard), SECRET, HOST)) for shard in shards]
        client = stack.enter_context(RemoteClient([server.address for server in servers], SECRET))
        ahead = [client.start_pull(keys, 64) for _ in range(2)]
        pulled = [one.result() for one in ahead] + [client.pull(keys, 64)]
        client.push(pushed(client, keys, 3))
        pulled.append(client.pull(keys, 64))
    assert [sum(of_pull) for of_pull in zip(*sent, strict=True)] == [3, 3, 0, 0, 3]  # the last but one for the push
    assert all(one.dense.keys() == LAYERS.keys() for one in pulled)
    local = LocalClient(new_shards(2))
    np.testing.assert_array_equal(pulled[2].dense["kernel"], np.asarray(local.pull(keys, 64).dense["kernel"]))
    local.push(pushed(local, keys, 3))
    np.testing.assert_array_equal(pulled[3].dense["kernel"], np.asarray(local.pull(keys, 64).dense["kernel"]))


def test_a_local_client_offers_the_same_requests_ahead() -> None:
    client, keys = LocalClient(new_shards(2)), random_keys(50, 2)
    client.start_push(pushed(client, keys, 3)).result()
    ahead = client.start_pull(keys, 64)
    np.testing.assert_array_equal(ahead.result().weights["weights"], client.pull(keys, 64).weights["weights"])


@costly
def test_sixteen_workers_at_once_lose_no_count() -> None:
    shards = new_shards(2)
    pool = random_keys(64, 4)
    errors: list[BaseException] = []

    def work(number: int, addresses: list[Address]) -> None:
        random = np.random.default_rng(number)
        try:
            with RemoteClient(addresses if number % 2 else [tcp(a) for a in addresses], SECRET) as client:
                for step in range(20):
                    keys = random.choice(pool, 32, replace=False)
                    push = pushed(client, keys, number * 100 + step, gradient=0.1)
                    ones = np.ones(len(keys), np.uint32)
                    client.push(push._replace(touched=push.touched._replace(counts=ones, clicks=ones)))
        except BaseException as error:
            errors.append(error)

    with served(shards) as addresses:
        threads = [threading.Thread(target=work, args=(number, addresses)) for number in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert not errors
    expected = np.zeros(64, np.int64)
    for number in range(16):
        random = np.random.default_rng(number)
        for _ in range(20):
            expected += np.isin(pool, random.choice(pool, 32, replace=False))
    found = rows(shards)
    for key, count in zip(pool.tolist(), expected.tolist(), strict=True):
        row = found["weights", key]
        for column in ("count", "shows", "clicks", "updates"):
            assert int.from_bytes(row[column], "little") == count, column


def test_an_error_of_the_shard_is_raised_at_the_worker_and_the_connection_goes_on() -> None:
    keys = random_keys(30, 5)
    with served(new_shards(1)) as addresses, RemoteClient(addresses, SECRET) as client:
        good = pushed(client, keys, 6)
        bad = good._replace(gradients={**good.gradients, "weights": good.gradients["weights"] + 100})
        with pytest.raises(TrainingError, match=r"The update of key -?\d+, slot slot\d, is beyond the limits of safety"):
            client.push(bad)
        client.push(good)
        assert client.pull(keys, 64).weights["weights"].any()


def test_a_push_that_lacks_a_table_names_what_is_expected() -> None:
    keys = random_keys(30, 5)
    with served(new_shards(1)) as addresses, RemoteClient(addresses, SECRET) as client:
        good = pushed(client, keys, 6)
        with pytest.raises(TrainingError, match=r"the tables of gradients to be at least .*'vectors'.*, got \['weights'\]"):
            client.push(good._replace(gradients={"weights": good.gradients["weights"]}))


def test_a_shard_that_does_not_answer_in_time_is_named_with_its_address() -> None:
    shards = new_shards(2)
    with served(shards) as addresses, RemoteClient(addresses, SECRET, deadline_seconds=0.2) as client:
        with shards[1].first.lock, pytest.raises(TrainingError) as raised:
            client.pull(random_keys(10, 6), 64)
        assert str(raised.value) == f"No answer to pull from shard 1 of 2 at {addresses[1]} within 0.2 s."


def test_a_shard_that_is_not_there_is_named_before_anything_is_sent() -> None:
    with served(new_shards(1)) as addresses:
        pass
    with pytest.raises(TrainingError, match=rf"Cannot connect to shard 0 of 1 at {addresses[0]}: .*refused"):
        RemoteClient(addresses, SECRET)


@costly
def test_a_killed_shard_fails_the_training_and_is_named() -> None:
    with (
        subprocess.Popen(
            [sys.executable, "-c", PROCESS, "1", "2"], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as process,
        served([new_shard(0, 2)]) as here,
    ):
        assert process.stdout is not None
        port, unix = process.stdout.readline().split()
        address = Address(HOST, int(port), unix)
        with RemoteClient([*here, address], SECRET) as client:
            keys = random_keys(100, 7)
            client.push(pushed(client, keys, 8))
            process.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, process.pid, os.WSTOPPED)
            pulling = client.start_pull(keys, 128)
            process.send_signal(signal.SIGKILL)
            with pytest.raises(TrainingError, match=rf"Lost shard 1 of 2 at {address} during pull"):
                pulling.result()
            with pytest.raises(TrainingError, match=rf"Lost shard 1 of 2 at {address}"):
                client.pull(keys, 128)


@costly
def test_a_server_process_serves_workers_over_both_sockets() -> None:
    local = LocalClient(new_shards(1))
    keys = random_keys(1000, 9)
    with subprocess.Popen(
        [sys.executable, "-c", PROCESS], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        port, unix = process.stdout.readline().split()
        for address in (Address(HOST, int(port), unix), Address(HOST, int(port))):
            with RemoteClient([address], SECRET) as client:
                for one in (local, client):
                    one.push(pushed(one, keys, 1))
                np.testing.assert_array_equal(*[one.pull(keys, 1024).weights["vectors"] for one in (local, client)])
        process.communicate("", timeout=30)
        assert process.returncode == 0
