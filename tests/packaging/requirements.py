"""Writes requirements-serve.txt, what a service of a linear model imports: `python -m tests.packaging.requirements`."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import tomllib
import urllib.request
from pathlib import Path
from socket import socket

import xpsql
from tests.docs.blocks import ROOT
from xpsql.platform.progress import SilentReporter

FILE = ROOT / "requirements-serve.txt"
HEAD = (
    "# What `xpsql serve` imports for models without a network: `pip install --no-deps xpsql-*.whl` and these, a third of what "
    "all needs."
)
SERVE = "import atexit, sys; atexit.register(lambda: print(*sys.modules)); from xpsql.platform.cli import run; run()"


def imported() -> set[str]:
    """Return the packages that a process has imported which served a linear model and answered."""
    with tempfile.TemporaryDirectory() as warehouse, socket() as free:
        with xpsql.connect(warehouse, reporter=SilentReporter()) as session:
            session.sql("TRAIN MODEL m USING xftrl LABEL y AS SELECT id % 7 AS u, CAST(id % 2 AS INT) AS y FROM range(200)")
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
        free.close()
        command = [sys.executable, "-c", SERVE, "serve", "m", "--port", str(port)]
        environment = {**os.environ, "XPSQL_WAREHOUSE": warehouse}
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            assert process.stderr is not None
            assert any(line.startswith("Serving ") for line in process.stderr)
            body = json.dumps({"instances": [{"u": 1}]}).encode()
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/models/m:predict", body, timeout=30) as answer:
                assert "predictions" in json.load(answer)
            process.terminate()
            modules, _ = process.communicate(timeout=60)
    return {module.partition(".")[0].replace("_", "-") for module in modules.split()}


def text() -> str:
    """Return the file: what pyproject.toml requires of the packages that were imported."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    required = {*project["dependencies"], *project["optional-dependencies"]["serve"]}
    found = imported()
    return "\n".join([HEAD, *sorted(line for line in required if re.split(r"[^\w-]", line)[0] in found)]) + "\n"


if __name__ == "__main__":
    Path(FILE).write_text(text(), encoding="utf-8")
