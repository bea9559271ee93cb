"""Shards in processes: clients, secrets, versions, a kill, and the commands of `xpsql ps`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import xpsql
import xpsql.ps
from tests.parameters.conftest import Killable
from xpsql.platform.cli.ps import wait_for
from xpsql.platform.parameters.contact import read_contact, write_contact
from xpsql.platform.parameters.hosted import HostedServer, hosted
from xpsql.platform.parameters.opening import folder_of, opened
from xpsql.platform.parameters.processes import LocalProcesses

TABLES = {"item": xpsql.ps.Table(2, "sgd (learning_rate = 1.0)", init=0), "user": xpsql.ps.Table(3)}
QUERY = "SELECT id AS item FROM range(0, 640)"
DEADLINE_SECONDS = 120.0


def learn(ps: xpsql.ps.ParameterServer, most: int | None = None) -> int:
    count = 0
    for batch in ps.batches(QUERY, batch_size=64, checkpoint_seconds=None):
        ps["item"].push(batch["item"], np.full((len(batch), 2), -1))
        count += 1
        if count == most:
            break
    return count


def test_another_client_sees_what_one_pushed_and_their_pushes_add_up(warehouse: Path, server: HostedServer) -> None:
    with xpsql.ps.connect(warehouse, "s") as ps, xpsql.ps.connect(server.contact) as other:
        for client in (server, ps, other):
            client["item"].push(["a", "b"], np.ones((2, 2)))
        assert ps["item"].pull(["b"]).tolist() == [[-3, -3]]
        assert ps.status()["clients"] == 3
        assert ps["user"].pull([1]).shape == (1, 3)
        assert ps.commit("m") == 1
    with xpsql.connect(warehouse) as session:
        assert session.sql("SELECT weights FROM ML.WEIGHTS(MODEL m)").fetchall() == [([-3, -3],), ([-3, -3],)]


def test_a_killed_shard_takes_all_rows_back_to_the_checkpoint_and_batches_go_on_exactly_once(
    warehouse: Path, server: HostedServer, tasks: Killable
) -> None:
    with xpsql.ps.connect(warehouse, "s") as ps:
        learn(ps, most=4)
        ps.checkpoint()
        learn(ps, most=3)
        tasks.kill(1)
        with pytest.raises(xpsql.LostError):
            until_lost(ps)
        ps.reconnect()
        assert "Shards were lost: Lost shard 1" in ps.lost
        assert "Rows went back to checkpoint 000001-000001; what was pushed since is gone." in ps.lost
        assert learn(ps) == 7
        assert set(ps["item"].pull(np.arange(640)).reshape(-1).tolist()) == {1}
        assert ps.status()["epoch"] == 2


def until_lost(ps: xpsql.ps.ParameterServer) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while time.monotonic() < deadline:
        ps["item"].pull(np.arange(640))


def test_a_client_with_a_wrong_secret_or_of_another_version_is_refused_in_words(warehouse: Path, server: HostedServer) -> None:
    folder = folder_of(warehouse, "s")
    contact = read_contact("s", folder)
    assert folder.contact.stat().st_mode & 0o777 == 0o600
    with pytest.raises(xpsql.LostError, match=r"Cannot connect to parameter server s at .*secret"):
        xpsql.ps.connect(contact._replace(secret=bytes(32)))
    with pytest.raises(xpsql.StatementError, match=r"runs xpsql 0\.0\.0, and this process has"):
        xpsql.ps.connect(contact._replace(xpsql="0.0.0"))
    folder.contact.chmod(0o644)
    with pytest.raises(xpsql.ModelError, match="others may read it: chmod 600"):
        xpsql.ps.connect(warehouse, "s")
    folder.contact.write_text("{}")
    folder.contact.chmod(0o600)
    with pytest.raises(xpsql.ModelError, match="is damaged"):
        xpsql.ps.connect(warehouse, "s")
    write_contact(folder.contact, contact)
    xpsql.ps.connect(warehouse, "s").close()


def test_a_server_that_does_not_run_is_told_with_how_to_start_it(warehouse: Path) -> None:
    with pytest.raises(xpsql.NotAvailableError, match="xpsql ps start s --warehouse"):
        xpsql.ps.connect(warehouse, "s")


def test_clients_of_an_encrypted_server_reach_it_by_its_certificate(warehouse: Path) -> None:
    pytest.importorskip("cryptography")
    held = opened(warehouse, "s", TABLES, 1, 0, None)
    with (
        hosted(held, LocalProcesses(), encrypt=True, tell=lambda line: None) as server,
        xpsql.ps.connect(warehouse, "s") as ps,
    ):
        ps["item"].push([1], np.ones((1, 2)))
        assert server["item"].pull([1]).tolist() == [[-1, -1]]
        with pytest.raises(xpsql.LostError, match="Cannot connect"):
            xpsql.ps.connect(read_contact("s", folder_of(warehouse, "s"))._replace(public=None))


def test_shards_that_cannot_load_end_the_server_with_their_own_error(warehouse: Path) -> None:
    with xpsql.ps.local(warehouse, "s", TABLES) as ps:
        ps["item"].push([1], np.ones((1, 2)))
        ps.checkpoint()
    for path in (warehouse / "services" / "s" / "checkpoints" / "rows" / "item").rglob("*.state"):
        path.write_bytes(b"damaged")
    with pytest.raises(xpsql.CheckpointError, match="damaged"):
        hosted(opened(warehouse, "s", None, None, 0, None), LocalProcesses(), tell=lambda line: None)
    opened(warehouse, "s", None, None, 0, None).lock.release()  # the name is free


def command(warehouse: Path, *words: str) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "xpsql", "ps", *words, "--warehouse", str(warehouse)]
    return subprocess.run(line, capture_output=True, text=True, timeout=DEADLINE_SECONDS, check=False)


def test_the_commands_start_show_commit_and_stop_a_server_that_keeps_its_rows(warehouse: Path) -> None:
    table = "item: dim = 2, operators = (admit (min_count = 1), sgd (learning_rate = 1.0)), init = 0"
    begun = command(warehouse, "start", "s", "--table", table, "--shards", "2")
    assert begun.returncode == 0, begun.stderr
    try:
        assert "is held by process" in command(warehouse, "start", "s").stderr
        with xpsql.ps.connect(warehouse, "s") as ps:
            ps["item"].push([1, 2, 3], np.ones((3, 2)))
        (line,) = command(warehouse, "status", "s", "--format", "json").stdout.splitlines()
        shown = json.loads(line)
        assert (shown["table"], shown["rows"], shown["shards"], shown["clients"]) == ("item", 3, 2, 0)
        assert "memory_bytes" in command(warehouse, "status", "s").stdout
        assert command(warehouse, "commit", "s", "--model", "m").stdout == "m v1\n"
    finally:
        stopped = command(warehouse, "stop", "s")
    assert stopped.returncode == 0, stopped.stderr
    opened(warehouse, "s", None, None, 0, None).lock.release()  # the name is free at once
    assert not folder_of(warehouse, "s").contact.exists()
    assert "does not run" in command(warehouse, "status", "s").stderr
    with xpsql.ps.local(warehouse, "s") as ps:
        assert ps["item"].pull([2]).tolist() == [[-1, -1]]


def test_a_killed_holder_is_told_and_a_start_goes_on_from_its_checkpoint(warehouse: Path) -> None:
    assert command(warehouse, "start", "s", "--table", "item: dim = 2, operators = (sgd), init = 0").returncode == 0
    with xpsql.ps.connect(warehouse, "s") as ps:
        ps["item"].push([1], np.ones((1, 2)))
        expected = ps["item"].pull([1, 2]).tolist()
        ps.checkpoint()
        ps["item"].push([2], np.ones((1, 2)))
        assert ps.contact is not None
        os.kill(ps.contact.process, signal.SIGKILL)
        with pytest.raises(xpsql.LostError):
            until_lost(ps)
    with pytest.raises(xpsql.LostError, match="Cannot connect to parameter server s"):
        xpsql.ps.connect(warehouse, "s")
    assert command(warehouse, "start", "s").returncode == 0
    try:
        with xpsql.ps.connect(warehouse, "s") as ps:
            assert ps["item"].pull([1, 2]).tolist() == expected
    finally:
        assert command(warehouse, "stop", "s").returncode == 0


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        (["item: operators = (sgd)"], "--table 'item: operators = (sgd)'"),
        (["item: operators = (sgd)"], "needs dim"),
        (["item"], "--table 'item', column 5: Expected ':'"),
        (["item"], "Write it like 'item: dim = 16, operators = (adagrad)'."),
        (["item: dim = 2, oprators = (sgd)"], "column 16: A table has no option 'oprators'. Did you mean operators"),
        (["item: dim = 2", "item: dim = 3"], "another table is named item, too"),
        (["item: dim = 2, operators = (adagrid)"], "Operators of table item, (adagrid): There is no operator 'adagrid'"),
        (["item: dim = 2, slots = (a)", "user: dim = 2, slots = (a)"], "A slot belongs to one table"),
    ],
)
def test_tables_that_cannot_be_are_refused_before_a_process_starts(warehouse: Path, tables: list[str], message: str) -> None:
    found = command(warehouse, "start", "s", *(word for text in tables for word in ("--table", text)))
    assert (found.returncode, message in found.stderr, "ended with" in found.stderr) == (1, True, False), found.stderr
    assert not warehouse.exists()


@pytest.mark.parametrize(
    ("said", "expected"), [("Error: s needs tables.", "s needs tables."), ("Killed", "s ended with 1:\nKilled")]
)
def test_a_start_that_fails_says_why_once(tmp_path: Path, said: str, expected: str) -> None:
    log, process = tmp_path / "log", subprocess.Popen(["false"])
    process.wait()
    log.write_text(f"of an earlier start\n{said}\n")
    with pytest.raises(xpsql.XpsqlError, match=f"{expected}$"):
        wait_for(process, folder_of(tmp_path, "s"), log, len("of an earlier start\n"), 1)


def test_a_new_server_without_tables_says_how_to_name_them(warehouse: Path) -> None:
    with pytest.raises(
        xpsql.StatementError, match=r"s is new, and needs tables: .*, or --table 'item: dim = 16' of xpsql ps start"
    ):
        opened(warehouse, "s", None, None, 0, None)
