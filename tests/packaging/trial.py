"""Tries a wheel where there is nothing else: `python -m tests.packaging.trial WHEEL PYTHON UV`.

Environments are new, and PATH has nothing but them: no compiler, no make. In one the wheel is installed with all that it
requires, and README's ten statements run. In the other it is installed with the packages of requirements-serve.txt, and serves
the model.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from socket import socket
from typing import NamedTuple

from tests.docs.blocks import ROOT, blocks

SERVING = ROOT / "requirements-serve.txt"
ROW = {"user": "user1", "ad": "ad2", "hour": 20, "price": 1.5}
IMPORT = """
import sys
before = set(sys.modules)
import xpsql
loaded = {name.partition(".")[0] for name in set(sys.modules) - before}
print(sorted(loaded - {"xpsql"} - set(sys.stdlib_module_names)), xpsql.__version__)
"""
SCORED = "SELECT predicted_click FROM ML.PREDICT(MODEL ctr, (SELECT 'user1' AS user, 'ad2' AS ad, 20 AS hour, 1.5D AS price))"


class Place(NamedTuple):
    """An environment: its folder, and the uv that installs into it."""

    folder: Path
    uv: str

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    @property
    def variables(self) -> dict[str, str]:
        """The variables of its processes: a PATH of its own, and none of Python's."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV", "XPSQL"))}
        return {**kept, "PATH": str(self.folder / "bin")}

    def install(self, *what: str | Path) -> None:
        """Install packages, none of which may be built."""
        command = [self.uv, "pip", "install", "--quiet", "--python", self.python, "--only-binary", ":all:", *what]
        subprocess.run(command, check=True, env=self.variables)

    def run(self, *command: str | Path, cwd: Path) -> str:
        """Run a command, and return what it prints."""
        program = self.folder / "bin" / command[0]
        done = subprocess.run([program, *command[1:]], check=False, env=self.variables, cwd=cwd, capture_output=True, text=True)
        assert done.returncode == 0, f"{command}:\n{done.stdout}{done.stderr}"
        return done.stdout


def made(folder: Path, python: str | Path, uv: str) -> Place:
    """Make an empty environment."""
    subprocess.run([uv, "venv", "--quiet", "--python", python, folder], check=True)
    return Place(folder, uv)


def try_statements(place: Place, wheel: Path, folder: Path) -> float:
    """Install the wheel, run README's statements, and return what its model predicts of ROW."""
    place.install(wheel)
    assert place.run("python", "-c", IMPORT, cwd=folder) == f"[] {wheel.name.split('-')[1]}\n"
    (sql,) = [block.text for block in blocks("README.md") if block.language == "sql"]
    (folder / "first.sql").write_text(sql)
    assert "predicted_click" in place.run("xpsql", "run", "first.sql", cwd=folder)
    (line,) = place.run("xpsql", "sql", SCORED, "--format", "json", cwd=folder).splitlines()
    return float(json.loads(line)["predicted_click"])


def try_service(place: Place, wheel: Path, folder: Path) -> float:
    """Install the wheel with what serving takes, serve the model, and return what it predicts of ROW."""
    place.install("--requirement", SERVING)
    place.install("--no-deps", wheel)
    with served(place, folder) as port:
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}/v1/models/ctr:predict", json.dumps({"instances": [ROW]}).encode(), method="POST"
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            return float(json.load(answer)["predictions"][0])


@contextmanager
def served(place: Place, folder: Path) -> Iterator[int]:
    """Serve the model while the block runs; gives the port."""
    with socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    command = [place.folder / "bin" / "xpsql", "serve", "ctr", "--port", str(port)]
    with subprocess.Popen(command, cwd=folder, env=place.variables, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        said = []
        for line in process.stderr:
            said.append(line)
            if line.startswith("Serving "):
                break
        else:
            raise AssertionError("".join(said))
        try:
            yield port
        finally:
            process.terminate()


def attempt(wheel: Path, python: str | Path, uv: str) -> None:
    """Try a wheel: SQL and the service predict the same."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        predicted = try_statements(made(root / "whole", python, uv), wheel, root)
        assert try_service(made(root / "serving", python, uv), wheel, root) == predicted


if __name__ == "__main__":
    attempt(Path(sys.argv[1]).resolve(), sys.argv[2], sys.argv[3])
