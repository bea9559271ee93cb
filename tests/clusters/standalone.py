"""A standalone cluster: a master and two workers, as processes of this machine."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark

HOSTS = ("127.0.0.1", "127.0.0.2" if sys.platform == "linux" else "127.0.0.1")  # one machine, and two for Spark
SECONDS = 120.0
SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"


@contextmanager
def standalone(folder: Path, cores: int = 2) -> Iterator[str]:
    """Give the URL of a cluster that ends with the block.

    Args:
        folder: where its workers keep what they need.
        cores: of each worker.
    """
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with ExitStack() as stack:

        def start(name: str, host: str, *arguments: str) -> None:
            command = [str(SPARK_CLASS), f"org.apache.spark.deploy.{name}", "--host", host, "--webui-port", "0", *arguments]
            environment = {**os.environ, "SPARK_LOCAL_IP": host}
            process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            stack.callback(process.wait)
            stack.callback(process.kill)

        master = f"spark://127.0.0.1:{port}"
        start("master.Master", "127.0.0.1", "--port", str(port))
        wait_for(port)  # who finds nobody there tries again after 10 seconds
        for number, host in enumerate(HOSTS):
            own = "--cores", str(cores), "--memory", "1g", "--work-dir", str(folder / f"work{number}")
            start("worker.Worker", host, *own, master)
        yield master


def wait_for(port: int) -> None:
    """Wait until somebody listens at a port of this machine."""
    deadline = time.monotonic() + SECONDS
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
