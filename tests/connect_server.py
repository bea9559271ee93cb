"""A server of Spark Connect for tests: another process, with a JVM of its own, that listens at a free port."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

PLUGIN = "org.apache.spark.sql.connect.SparkConnectPlugin"


@contextmanager
def serving(master: str, settings: Mapping[str, str], folder: Path) -> Iterator[str]:
    """Start a server, and end it after the block.

    Args:
        folder: where it writes.

    Yields:
        Its address.
    """
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    given = {"spark.plugins": PLUGIN, "spark.connect.grpc.binding.port": port, "spark.local.dir": str(folder)}
    given |= {"spark.sql.warehouse.dir": str(folder), "spark.ui.showConsoleProgress": "false"}
    pairs = [f"{name}={value}" for name, value in {**settings, **given}.items()]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    command = [sys.executable, "-m", "tests.connect_server", master, *pairs]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        yield f"sc://127.0.0.1:{port}"
        process.communicate(timeout=60)


if __name__ == "__main__":
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(sys.argv[1])
    for pair in sys.argv[2:]:
        builder = builder.config(*pair.split("=", 1))
    builder.getOrCreate()
    print("up", flush=True)
    sys.stdin.read()  # the process of the tests has ended, or says that it is enough
