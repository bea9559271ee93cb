"""`xpsql submit`: the command of spark-submit that runs ours, with what executors need."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from ..engines.spark.start import require_java, require_pyspark
from .packing import environment_archive

FOLDER = "xpsql_environment"
HEARS = "XPSQL_HEARS_INTERRUPTS"
"""Set where the process hears Ctrl-C though the one that started it does not."""
QUIET = {"spark.log.level": "WARN", "spark.ui.showConsoleProgress": "false"}  # our progress and results are to be seen


def submission(master: str | None, conf: Mapping[str, str], python: str) -> tuple[list[str], dict[str, str]]:
    """Return the command that runs our command line in a Spark application, up to our arguments, and its environment.

    On a cluster, executors get an archive of the packages that this Python has, and find them there. They need a Python of
    this one's minor version, and nothing else. With local[N], executors are this Python.

    Args:
        master: where Spark runs; None for what spark-defaults.conf says.
        conf: settings of Spark.
        python: the Python of a cluster's executors.

    Raises:
        NotAvailableError: PySpark or Java are missing.
    """
    require_pyspark()
    require_java()
    command = [spark_submit(), *(["--master", master] if master is not None else [])]
    local = master is not None and master.startswith("local") and not master.startswith("local-cluster")
    given = {**QUIET, **conf}
    if not local:
        command += ["--archives", f"{environment_archive()}#{FOLDER}"]
        given["spark.executorEnv.PYTHONPATH"] = ":".join(filter(None, (FOLDER, conf.get("spark.executorEnv.PYTHONPATH"))))
    for name, value in given.items():
        command += ["--conf", f"{name}={value}"]
    pythons = {"PYSPARK_DRIVER_PYTHON": sys.executable, "PYSPARK_PYTHON": sys.executable if local else python}
    return [*command, str(entry())], {**os.environ, **pythons, HEARS: "1"}


def started(command: Sequence[str], environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Start spark-submit deaf to Ctrl-C, and Java with it: the driver, Python, hears it, ends in order, and Java after it.

    Java that hears it, too, takes Spark apart under the driver's hands, and both write the stacks of that.
    """
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # which processes inherit
    try:
        return subprocess.Popen(command, env=environment)
    finally:
        signal.signal(signal.SIGINT, before)


def driver_hears(process: subprocess.Popen[bytes]) -> bool:
    """Return whether a process that another one started, directly or not, acts at Ctrl-C."""
    parents: dict[int, int] = {}
    hearing = set()
    for path in Path("/proc").glob("[0-9]*/status"):
        with contextlib.suppress(OSError):  # it has ended
            said = dict(line.split(":", 1) for line in path.read_text().splitlines() if ":" in line)
            parents[int(said["Pid"])] = int(said["PPid"])
            if int(said["SigCgt"], 16) >> (signal.SIGINT - 1) & 1:
                hearing.add(int(said["Pid"]))
    found = {process.pid}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return bool(found & hearing)


def spark_submit() -> str:
    """Return the path of spark-submit: that of SPARK_HOME, or the one that PySpark brings."""
    import pyspark

    home = os.environ.get("SPARK_HOME")
    return str((Path(home) if home else Path(pyspark.__file__).parent) / "bin" / "spark-submit")


def entry() -> Path:
    """Return the file that spark-submit runs."""
    import xpsql

    return Path(xpsql.__file__).parent / "__main__.py"
