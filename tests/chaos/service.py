"""A service that is killed while versions come: `python -m tests.chaos.service FOLDER --times n`.

Versions follow each other, each a few rows from the last one, so that the service lays them over the images that it has mapped;
it is killed with `kill -9` at moments drawn from the seed, and another one is started. Each must say what ML.PREDICT says of
the version that it names, and images that are left must be whole.
"""

from __future__ import annotations

import argparse
import json
import random
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import xpsql
from xpsql.platform.images.layout import BLOCK, PAGE, damaged, opened
from xpsql.platform.progress import SilentReporter

SECONDS = 120.0
OF_ROWS = "SELECT CAST(id % 3 = 0 AS INT) AS y, id % 4000 AS a, id % 7 AS b FROM range(9000)"
TRAIN = f"TRAIN MODEL m USING fm (dim = 4) LABEL y AS {OF_ROWS}"
CONTINUE = "CONTINUE MODEL m AS SELECT 1 AS y, CAST({0} AS BIGINT) AS a, CAST({0} % 7 AS BIGINT) AS b FROM range(3)"
ROWS = [{"a": a, "b": a % 7} for a in range(40)]


@contextmanager
def serving(folder: Path) -> Iterator[int]:
    """Serve the model, give the port once it listens, and kill the process in the end."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = int(found.getsockname()[1])
    command = [sys.executable, "-m", "xpsql", "serve", "m", "--warehouse", str(folder), "--port", str(port)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            reported = []
            for line in process.stderr:
                reported.append(line)
                if line.startswith("Serving m "):
                    break
            else:
                raise AssertionError(reported)
            yield port
        finally:
            process.kill()


def answered(port: int) -> tuple[int, list[float]]:
    """Return the version that answers, and its predictions."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/models/m:predict", json.dumps({"instances": ROWS}).encode())
    with urllib.request.urlopen(request, timeout=SECONDS) as answer:
        found = json.loads(answer.read())
    return int(found["model_version"]), found["predictions"]


def mistakes(folder: Path, times: int, seed: int) -> list[str]:
    """Serve while versions come and processes are killed, and return what was wrong."""
    draw, found, wanted = random.Random(seed), list[str](), dict[int, list[float]]()
    with xpsql.connect(folder, reporter=SilentReporter()) as session:

        def predict(number: int) -> None:
            query = f"SELECT * FROM ML.PREDICT(MODEL m VERSION {number}, (SELECT id AS a, id % 7 AS b FROM range({len(ROWS)})))"
            wanted[number] = session.sql(f"{query} ORDER BY a").arrow()["predicted_y"].to_pylist()

        session.sql(TRAIN)
        predict(1)
        for number in range(2, times + 3):
            with serving(folder) as port:
                session.sql(CONTINUE.format(draw.randrange(40)))
                predict(number)
                deadline, last = time.monotonic() + draw.random() * 3, number > times + 1
                while time.monotonic() < deadline + (SECONDS if last else 0):
                    version, said = answered(port)
                    if said != wanted[version]:
                        found.append(f"version {version} says {said[:3]}, not {wanted[version][:3]}")
                    if last and version == number:
                        break
                else:
                    found += ["the last version was never served"] if last else []
        for image in (folder / "models" / "m").rglob("rows*.bin"):
            layout, memory = opened(image)
            if list(damaged(layout, memory, range(-(-(layout.checks_at - PAGE) // BLOCK)))):
                found.append(f"{image} is damaged")
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--times", type=int, default=20)
    given = parser.parse_args()
    seed = time.time_ns()
    print(f"seed {seed}", flush=True)
    found = mistakes(given.folder, given.times, seed)
    print(f"| service: any | {given.times} | {len(found)} mistakes |", flush=True)
    if found:
        sys.exit("\n".join(found[:20]))


if __name__ == "__main__":
    main()
