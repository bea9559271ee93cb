"""Trainings and predictions whose tasks meet over TLS: as between machines, where there is no Unix socket."""

from __future__ import annotations

import functools
import socket
import ssl
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import xpsql
from tests.cases import costly, slow
from tests.ps.serving import tcp
from tests.training.log import log, write
from tests.training.processes import ProcessTasks
from xpsql.platform.engines.tasks import Running, Task
from xpsql.platform.errors import LostError, StatementError
from xpsql.platform.progress import SilentReporter
from xpsql.platform.ps.transport import connection, sockets
from xpsql.platform.ps.transport.connection import Connection
from xpsql.platform.ps.transport.over_sockets import SOCKETS
from xpsql.platform.ps.transport.sockets import Address
from xpsql.platform.ps.transport.tls import make_certificate
from xpsql.platform.ps.transport.wire import ConnectionLimits
from xpsql.platform.scoring import prediction
from xpsql.platform.session import Session
from xpsql.platform.training import parallelism
from xpsql.platform.training.parallelism import Places
from xpsql.platform.training.tasks.cluster import Cluster, cluster
from xpsql.platform.training.tasks.messages import FIND, Find, ShardAddresses

ROWS = 1000
SHORT = ConnectionLimits(handshake_seconds=0.5)


def connect(address: Address, seconds: float, context: ssl.SSLContext | None) -> socket.socket:
    assert context is not None
    return sockets.connect(tcp(address), seconds, context)


def plain(number: int, frames: object) -> None:
    raise AssertionError("a connection without TLS")


PATCHES = (connection, "connect", connect), (sockets, "Channel", plain)


def elsewhere(function: Callable[[Task], None], task: Task) -> None:
    """Run a task as on another machine; it fails at the first connection that is not encrypted."""
    for module, name, value in PATCHES:
        setattr(module, name, value)
    function(task)


class Elsewhere(ProcessTasks):
    def start(self, function: Callable[[Task], None], count: int, name: str, gang: bool) -> Running:
        return super().start(functools.partial(elsewhere, function), count, name, gang)


def opened(folder: Path, tasks: ProcessTasks | None, monkeypatch: pytest.MonkeyPatch) -> Session:
    session = xpsql.connect(folder, reporter=SilentReporter())
    monkeypatch.setattr(session.engine, "tasks", tasks, raising=False)
    monkeypatch.setattr(prediction, "SMALL_ROWS", 0)
    monkeypatch.setattr(parallelism, "BYTES_PER_SHARD", 1000)
    if tasks is not None:
        for module, name, value in PATCHES:
            monkeypatch.setattr(module, name, value)
    return session


def query(path: Path) -> str:
    return f"SELECT label, user, price FROM parquet.`{path}`"


def train(session: Session, path: Path, algorithm: str, options: str) -> None:
    session.sql(f"TRAIN MODEL m USING {algorithm} WITH (encrypt = true, {options}) AS {query(path)}")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write(log(ROWS), tmp_path / "log.parquet", row_group_rows=300)


@costly
@pytest.mark.parametrize(
    ("algorithm", "options"),
    [
        pytest.param("xftrl", "batch_size = 100, workers = 1, shards = 2", marks=slow),
        ("xftrl", "batch_size = 100, workers = 2, shards = 2, sync = 'bsp', passes = 3, checkpoint_seconds = 0.01"),
        ("owlqn", "workers = 2"),
    ],
)
def test_an_encrypted_model_is_that_of_one_process(
    algorithm: str, options: str, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for name, tasks in (("here", None), ("there", Elsewhere(8))):
        with opened(tmp_path / name, tasks, monkeypatch) as session:
            train(session, path, algorithm, options)
            found.append(session.sql(f"SELECT * FROM ML.PREDICT(MODEL m, ({query(path)}))").arrow())
    here, there = (one["predicted_label"].to_numpy() for one in found)
    np.testing.assert_allclose(there, here, rtol=0, atol=1e-4 if algorithm == "owlqn" else 0)


def ask(made: Cluster, public: str | None) -> ShardAddresses:
    """Be a client that knows the secret of a job."""
    asking = Connection("the coordinator", tcp(made.contact.address), made.contact.secret, SHORT, public)
    try:
        return asking.call(FIND, Find(), 5)
    finally:
        asking.close()


def test_clients_without_tls_and_with_another_certificate_do_not_come_in() -> None:
    with cluster(ProcessTasks(0), "m v1", Places(1, 1), (), lambda role, number: None, None, True, SOCKETS) as made:
        assert ask(made, made.contact.public) == ShardAddresses(())
        with pytest.raises(LostError, match="only 0 of 40 bytes"):
            ask(made, None)
        with pytest.raises(LostError, match="CERTIFICATE_VERIFY_FAILED"):
            ask(made, make_certificate().public)


@pytest.mark.parametrize(
    ("algorithm", "missing", "message"),
    [
        ("xftrl", "cryptography", r"pip install 'xpsql\[tls\]'"),
        ("xgboost", "nothing", "its package's own connections"),
    ],
)
def test_what_cannot_be_encrypted_is_refused_before_anything_starts(
    algorithm: str, missing: str, message: str, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    tasks = ProcessTasks(8)
    with opened(tmp_path / "warehouse", tasks, monkeypatch) as session:
        with pytest.raises(StatementError, match=message):
            train(session, path, algorithm, "passes = 1")
        with pytest.raises(StatementError, match=message):
            session.sql(f"EXPLAIN TRAIN MODEL m USING {algorithm} WITH (encrypt = true) AS {query(path)}")
        assert session.sql("SHOW MODELS").arrow().num_rows == 0
    assert not tasks.started


def test_in_one_process_there_is_nothing_to_encrypt(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with opened(tmp_path / "warehouse", None, monkeypatch) as session:
        train(session, path, "xftrl", "workers = 2")


def test_explain_tells_what_is_encrypted(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    statement = f"EXPLAIN TRAIN MODEL m USING xftrl WITH (encrypt = true) AS {query(path)}"
    for tasks, reported in ((ProcessTasks(8), "all connections between machines, by TLS"), (None, "nothing, in one process")):
        with opened(tmp_path / "warehouse", tasks, monkeypatch) as session:
            assert {"property": "encrypted", "value": reported} in session.sql(statement).arrow().to_pylist()
