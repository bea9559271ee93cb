"""Networks that forbid connections among the machines of a job."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import xpsql
from tests.cases import lengthy
from tests.training.log import log, write
from tests.training.processes import ProcessTasks
from xpsql.platform.errors import LostError, TrainingError
from xpsql.platform.progress import SilentReporter
from xpsql.platform.ps.transport import sockets
from xpsql.platform.ps.transport.over_sockets import SOCKETS
from xpsql.platform.ps.transport.sockets import Address, reaches
from xpsql.platform.training.tasks.coordinator import Coordinator
from xpsql.platform.training.tasks.membership import EndedError, Membership
from xpsql.platform.training.tasks.messages import ShardAddresses

SECONDS = 20.0
ALLOWED = r"Allow connections on all ports among the machines of the driver and of executors"


@pytest.fixture(autouse=True)
def short_tries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sockets, "TRY_SECONDS", 0.05)


@pytest.fixture
def refusing() -> Iterator[Address]:
    """An address that is taken, and where nobody listens, as behind a firewall that rejects."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield Address("127.0.0.1", bound.getsockname()[1])


@pytest.fixture
def silent() -> Iterator[Address]:
    """An address whose kernel answers no more connections, as behind a firewall that drops."""
    with socket.socket() as full, socket.socket() as waiting:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        waiting.connect(full.getsockname())
        yield Address("127.0.0.1", full.getsockname()[1])


def opened() -> Coordinator:
    return Coordinator("m v1", 1, 2, "127.0.0.1", (), lambda role, number: None, None, None, SOCKETS)


def test_an_address_is_reached_where_a_server_listens_and_nowhere_else(refusing: Address, silent: Address) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert reaches(Address("127.0.0.1", server.getsockname()[1]))
    assert not reaches(refusing)
    assert not reaches(silent)
    assert not reaches(Address("no such host.invalid", 1))


def test_a_worker_says_which_shard_it_cannot_connect_to_though_it_runs(refusing: Address) -> None:
    with opened() as coordinator, Membership(coordinator.contact, "shard", 0, 0) as shard:
        shard.ready(refusing)
        message = rf"Worker 1 of m v1 on \S+ cannot connect to shard 0 at {refusing}, which runs\. {ALLOWED}"
        with (
            pytest.raises(TrainingError, match=message) as raised,
            Membership(coordinator.contact, "worker", 1, 0) as worker,
        ):
            worker.dial_shards(SECONDS, SECONDS)
        assert not isinstance(raised.value, LostError)
        with pytest.raises(TrainingError, match=message):  # the driver has it at once, and begins nothing again
            coordinator.check()


def test_a_shard_that_is_gone_is_no_matter_of_the_network(refusing: Address) -> None:
    with opened() as coordinator:
        shard = Membership(coordinator.contact, "shard", 0, 0)
        shard.__enter__().ready(refusing)
        with Membership(coordinator.contact, "worker", 0, 0) as worker:
            shard._connection.close()
            coordinator.fail(LostError("shard 0 is lost"))
            with pytest.raises(EndedError):
                worker.dial_shards(SECONDS, SECONDS)
        shard.__exit__(EndedError, EndedError(), None)


def test_a_task_that_cannot_connect_to_the_driver_says_so(refusing: Address) -> None:
    with opened() as coordinator:
        contact = coordinator.contact._replace(address=refusing)
        with pytest.raises(TrainingError, match=rf"cannot connect to the driver of m v1 at {refusing}\. {ALLOWED}"):
            Membership(contact, "shard", 0, 0)


@lengthy
@pytest.mark.parametrize(("of", "who"), [("_find", r"Worker \d"), ("shards", "The driver")])
def test_a_training_that_a_network_forbids_ends_at_its_start_with_what_to_allow(
    refusing: Address, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, of: str, who: str
) -> None:
    shards = Coordinator.shards

    def hidden(coordinator: Coordinator) -> list[Address] | None:
        return None if shards(coordinator) is None else [refusing]

    def find(coordinator: Coordinator, _: object) -> ShardAddresses:
        return ShardAddresses(tuple(hidden(coordinator) or ()), coordinator.silent())

    monkeypatch.setattr(Coordinator, of, find if of == "_find" else hidden)
    path = write(log(400), tmp_path / "log.parquet", 400)
    with xpsql.connect(tmp_path / "w", reporter=SilentReporter()) as session:
        monkeypatch.setattr(session.engine, "tasks", ProcessTasks(4), raising=False)
        began, settings = time.monotonic(), "IGNORE (ts) WITH (workers = 2, shards = 1)"
        with pytest.raises(TrainingError, match=rf"{who} of m v1 on \S+ cannot connect to shard 0 .*{ALLOWED}"):
            session.sql(f"TRAIN MODEL m USING xftrl {settings} AS SELECT * FROM parquet.`{path}`")
        assert time.monotonic() - began < 3 * SECONDS  # eleven tries, as after losses, would take minutes
        assert session.sql("SHOW MODELS").arrow()["status"].to_pylist() == ["failed"]
