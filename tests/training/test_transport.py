"""A job whose tasks reach each other by the transport that it was given, here one without sockets."""

from __future__ import annotations

import pickle
import subprocess
import sys

import numpy as np
import pytest

from tests.ps.test_remote_client import new_shard, pushed, random_keys, rows
from tests.training.memory_transport import MemoryTransport
from xpsql.platform.errors import LostError, TrainingError
from xpsql.platform.ps.client import LocalClient
from xpsql.platform.ps.service import shard_handlers
from xpsql.platform.ps.transport.over_sockets import SocketTransport
from xpsql.platform.ps.transport.wire import ConnectionLimits
from xpsql.platform.training.tasks.coordinator import Coordinator
from xpsql.platform.training.tasks.membership import Membership

NAME = "coordinator of m v1"


def no_sockets(*arguments: object, **named: object) -> None:
    raise AssertionError("a socket was made")


def test_shards_and_workers_work_together_by_another_transport(monkeypatch: pytest.MonkeyPatch) -> None:
    for made in ("connection.connect", "server.listen"):
        monkeypatch.setattr(f"xpsql.platform.ps.transport.{made}", no_sockets)
    transport, left = MemoryTransport(), []
    shard, keys = new_shard(), random_keys(50, 2)
    alone = LocalClient([new_shard()])
    with Coordinator("m v1", 1, 1, "host", (), lambda *who: left.append(who), None, None, transport) as coordinator:
        contact = coordinator.contact
        serving = transport.serve("shard 0", shard_handlers(shard), contact.secret, "host", ConnectionLimits(), None)
        with serving as server, Membership(contact, "shard", 0, 0) as hosting:
            hosting.ready(server.address)
            with Membership(contact, "worker", 0, 0) as member, contact.dial_shards(member.shards(5), 5) as client:
                for step in range(3):
                    for one in (client, alone):
                        one.push(pushed(one, keys, step, batch=step))
                assert [described.rows for described in client.describe()] == [50]
                client.leave(0)
        coordinator.check()
        with pytest.raises(LostError, match="nobody is at"):
            contact.dial_shards([server.address], 5)
    assert left == [("worker", 0), ("shard", 0)]
    assert rows([shard]) == rows(list(alone.shards))
    assert [called for name, called in transport.calls if name == "shard 0"] == ["pull", "push"] * 3 + ["describe", "leave"]
    assert {called for name, called in transport.calls if name == NAME} == {"join", "ready", "beat", "find", "leave"}


def test_errors_of_a_shard_are_raised_at_the_client_by_any_transport() -> None:
    transport = MemoryTransport()
    with Coordinator("m v1", 1, 1, "host", (), lambda *who: None, None, None, transport) as coordinator:
        contact = coordinator.contact
        server = transport.serve("shard 0", shard_handlers(new_shard()), contact.secret, "host", ConnectionLimits(), None)
        with contact.dial_shards([server.address], 5) as client, pytest.raises(TrainingError, match="size"):
            client.pull(np.arange(3, dtype=np.uint64), -1)


def test_the_transport_of_sockets_travels_to_tasks() -> None:
    assert pickle.loads(pickle.dumps(SocketTransport())) == SocketTransport()


WITHOUT_JAX = (
    "platform.input.dealing",
    "platform.ps.client",
    "platform.ps.service",
    "platform.training.checkpoints.checkpointer",
    "platform.training.checkpoints.files",
    "platform.training.checkpoints.recovery",
    "platform.training.monitor",
    "platform.training.online.pace",
    "platform.training.tasks.cluster",
    "platform.training.tasks.membership",
    "warehouse.models",
)


def test_what_decides_needs_no_jax() -> None:
    imports = "; ".join(f"import xpsql.{module}" for module in WITHOUT_JAX)
    program = f"import sys; {imports}; sys.exit('jax' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
