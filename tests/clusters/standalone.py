"""A standalone cluster: a master and two workers of two cores each, as processes of this machine."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark

SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"


@contextmanager
def standalone(folder: Path) -> Iterator[str]:
    """Give the URL of a cluster that ends with the block.

    Args:
        folder: where its workers keep what they need.
    """
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    master, environment = f"spark://127.0.0.1:{port}", {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"}
    commands = [["deploy.master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]]
    worker = ["deploy.worker.Worker", "--host", "127.0.0.1", "--cores", "2", "--memory", "1g", "--webui-port", "0"]
    commands += [[*worker, "--work-dir", str(folder / f"work{i}"), master] for i in range(2)]
    with ExitStack() as stack:
        for name, *arguments in commands:
            command = [str(SPARK_CLASS), f"org.apache.spark.{name}", *arguments]
            process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            stack.callback(process.wait)
            stack.callback(process.kill)
        yield master
