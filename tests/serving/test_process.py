"""The service as a process of its own, behind its server."""

from __future__ import annotations

import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import xpsql
from tests.cases import costly, costly_after_first, lengthy
from tests.serving.conftest import ROW
from xpsql.platform.ps.transport.tls import make_certificate
from xpsql.platform.serving import server

pytest.importorskip("httptools")
SECONDS = 120


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@contextmanager
def service(warehouse: Path, *arguments: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Serve the model `ctr`, and give its address once it says that it listens."""
    command = [
        sys.executable,
        "-m",
        "xpsql",
        "serve",
        "ctr",
        "--warehouse",
        str(warehouse),
        "--port",
        str(free_port()),
        *arguments,
    ]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, "XPSQL_TOKEN": ""}) as process:
        try:
            assert process.stderr is not None
            for line in process.stderr:
                if line.startswith("Serving ctr v1 at "):
                    yield line.split()[-1], process
                    break
            else:
                pytest.fail("the service ended before it listened")
        finally:
            process.kill()


def ask(url: str, body: Any = None, context: ssl.SSLContext | None = None, **headers: str) -> Any:
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(url, data, headers), timeout=SECONDS, context=context) as answer:
        return json.loads(answer.read())


@lengthy
def test_a_service_answers_until_it_is_terminated_and_then_has_logged_all(session: xpsql.Session, tmp_path: Path) -> None:
    log = tmp_path / "served"
    server.allow_connections()  # in this process, too
    with service(session.models.warehouse, "--log-requests", str(log), "--log-fraction", "1", "--threads", "2") as (
        url,
        process,
    ):
        assert ask(f"{url}/v2/health/ready") == {"ready": True}
        assert "jaxlib" not in Path(f"/proc/{process.pid}/maps").read_text(), "a linear model is served without JAX"
        place = urllib.parse.urlsplit(url)
        silent = [socket.create_connection((place.hostname, place.port), SECONDS) for _ in range(1100)]
        found = ask(f"{url}/v1/models/ctr:predict", {"instances": [ROW, ROW]})
        assert (len(found["predictions"]), found["model_version"]) == (2, "1")
        with pytest.raises(urllib.error.HTTPError, match="400"):
            ask(f"{url}/v1/models/ctr:predict", {"instances": [{}]})
        for stranger in silent:
            stranger.close()
        process.send_signal(signal.SIGTERM)
        assert process.wait(SECONDS) == 0
        assert process.stderr is not None
        assert process.stderr.read().splitlines() == ["Ended."]
    assert len(list(log.rglob("*.parquet"))) == 1


@costly
def test_a_service_may_have_a_token_and_tls(session: xpsql.Session, tmp_path: Path) -> None:
    made = make_certificate()
    files: dict[str, Callable[[], str]] = {
        "public": lambda: made.public,
        "private": lambda: made.private,
        "token": lambda: "sesame\n",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text())
    tls = [
        "--certificate",
        str(tmp_path / "public"),
        "--key",
        str(tmp_path / "private"),
        "--token-file",
        str(tmp_path / "token"),
    ]
    trusting = ssl.create_default_context(cadata=made.public)
    trusting.check_hostname = False
    with service(session.models.warehouse, *tls) as (url, _):
        assert url.startswith("https://127.0.0.1:")
        with pytest.raises(urllib.error.HTTPError, match="401"):
            ask(f"{url}/v2", context=trusting)
        assert ask(f"{url}/v2", context=trusting, Authorization="Bearer sesame")["name"] == "xpsql"


@costly_after_first
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nothing"], "There is no model nothing."),
        (["ctr", "--version", "9"], "Model ctr has no version 9."),
        (["ctr", "--token-file", "/absent"], "The file of --token-file, /absent, cannot be read"),
        (["ctr", "--certificate", "/absent"], "--certificate and --key go together."),
        (["ctr", "--certificate", "/absent", "--key", "/absent"], "The certificate /absent and the key /absent cannot be used"),
        (
            ["ctr", "--host", "192.0.2.1"],
            "cannot listen at http://192.0.2.1:8080: Cannot assign requested address. Give another --port or --host.",
        ),
    ],
)
def test_a_service_that_cannot_begin_says_why(session: xpsql.Session, arguments: list[str], words: str) -> None:
    command = [sys.executable, "-m", "xpsql", "serve", *arguments, "--warehouse", str(session.models.warehouse)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode in (1, 2)
    assert words in done.stderr
    assert "Traceback" not in done.stderr
