"""`xpsql submit`: the command of spark-submit that runs ours, with what executors need."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from ..engines.spark.environment import CONNECTED
from ..engines.spark.start import require_java, require_pyspark
from ..errors import NotAvailableError, StatementError
from . import supervision
from .packing import FOLDER, environment_archive

OF_DRIVERS = ("spark.yarn.appMasterEnv.PYTHONPATH", "spark.kubernetes.driverEnv.PYTHONPATH")
"""Settings of the variable PYTHONPATH of drivers that a cluster starts."""
HEARS = "XPSQL_HEARS_INTERRUPTS"
"""Set where the process hears Ctrl-C though the one that started it does not."""
MODE = "spark.submit.deployMode"
QUIET = {"spark.log.level": "WARN", "spark.ui.showConsoleProgress": "false"}  # our progress and results are to be seen


def submission(
    master: str | None, conf: Mapping[str, str], python: str, file: str, arguments: Sequence[str] = ()
) -> tuple[list[str], dict[str, str]]:
    """Return the command that runs our command line in a Spark application, and its environment.

    On a cluster, executors get an archive of the packages that this Python has, and find them there. They need a Python of
    this one's minor version, and nothing else. So does the driver, where the cluster starts it; it gets the script, too. With
    local[N], executors are this Python.

    Args:
        master: where Spark runs; None for what spark-defaults.conf says.
        conf: settings of Spark.
        python: the Python of a cluster's processes.
        file: the script.
        arguments: other arguments of ours.

    Raises:
        NotAvailableError: PySpark or Java are missing, or the cluster starts no driver in Python.
        StatementError: the cluster starts the driver, and nothing says where the warehouse is.
    """
    require_pyspark()
    require_java()
    remote = conf.get(MODE) == "cluster"
    if remote:
        check_driver(master)
        arguments = with_warehouse(arguments)
    command = [spark_submit(), *(["--master", master] if master is not None else [])]
    local = master is not None and is_local(master)
    given = {**QUIET, **conf}
    if not local:
        command += ["--archives", f"{environment_archive()}#{FOLDER}"]
        for name in ("spark.executorEnv.PYTHONPATH", *(OF_DRIVERS if remote else ())):
            given[name] = ":".join(filter(None, (FOLDER, conf.get(name))))
    if remote:
        command += ["--files", file]
        given |= {"spark.pyspark.python": python, "spark.pyspark.driver.python": python}
    for name, value in given.items():
        command += ["--conf", f"{name}={value}"]
    pythons = {"PYSPARK_DRIVER_PYTHON": sys.executable, "PYSPARK_PYTHON": sys.executable if local else python}
    ours = ["run", Path(file).name if remote else file, *arguments]
    inherited = {name: value for name, value in os.environ.items() if name not in CONNECTED}
    return [*command, str(entry()), *ours], {**inherited, **pythons, HEARS: "1"}


def is_local(master: str) -> bool:
    """Return whether a master is this process, whose executors are threads."""
    return master.startswith("local") and not master.startswith("local-cluster")


def check_driver(master: str | None) -> None:
    """Require a cluster that starts drivers in Python.

    Raises:
        NotAvailableError: it starts none.
    """
    if master is not None and master.startswith(("local", "spark://")):
        raise NotAvailableError(
            f"Spark starts no driver in Python at {master}; YARN and Kubernetes do. Leave --deploy-mode cluster out: then the "
            "driver runs here."
        )


def with_warehouse(arguments: Sequence[str]) -> Sequence[str]:
    """Return arguments that say where the warehouse is: a driver elsewhere has neither this folder nor these variables.

    Raises:
        StatementError: nothing says where it is.
    """
    if any(argument.partition("=")[0] == "--warehouse" for argument in arguments):
        return arguments
    if (warehouse := os.environ.get("XPSQL_WAREHOUSE")) is None:
        raise StatementError("With --deploy-mode cluster, give --warehouse a folder that all machines of the cluster share.")
    return [*arguments, "--warehouse", warehouse]


def started(command: Sequence[str], environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Start spark-submit deaf to Ctrl-C, and Java with it: the driver, Python, hears it, ends in order, and Java after it.

    Java that hears it, too, takes Spark apart under the driver's hands, and both write the stacks of that.
    """
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # which processes inherit
    try:
        return supervision.started(command, environment)
    finally:
        signal.signal(signal.SIGINT, before)


def driver_of(process: subprocess.Popen[bytes]) -> int | None:
    """Return the first process that acts at Ctrl-C among those that another one started, directly or not; None without one."""
    parents: dict[int, int] = {}
    hearing = set()
    for path in Path("/proc").glob("[0-9]*/status"):
        with contextlib.suppress(OSError):  # it has ended
            said = dict(line.split(":", 1) for line in path.read_text().splitlines() if ":" in line)
            parents[int(said["Pid"])] = int(said["PPid"])
            if int(said["SigCgt"], 16) >> (signal.SIGINT - 1) & 1:
                hearing.add(int(said["Pid"]))
    generation = {process.pid}
    while generation and not generation & hearing:
        generation = {pid for pid, parent in parents.items() if parent in generation}
    return min(generation & hearing, default=None)


def spark_submit() -> str:
    """Return the path of spark-submit: that of SPARK_HOME, or the one that PySpark brings."""
    import pyspark

    home = os.environ.get("SPARK_HOME")
    return str((Path(home) if home else Path(pyspark.__file__).parent) / "bin" / "spark-submit")


def entry() -> Path:
    """Return the file that spark-submit runs."""
    import xpsql

    return Path(xpsql.__file__).parent / "__main__.py"
