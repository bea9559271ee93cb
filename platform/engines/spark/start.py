"""Starting Spark: requirements, and the default settings of a session."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import shutil
import signal
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import current_thread, main_thread
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

from ...errors import EngineEndedError, NotAvailableError, StatementError
from ...system import needing
from .application import Application
from .applications import application_of, is_connect
from .environment import SUBMITTED
from .failures import plain, root_cause

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OLDEST = (3, 5, 4)
SERVER_PORT = 15002  # of a server that is given none
STATIC = {"spark.app.name": "xpsql", "spark.ui.showConsoleProgress": "false", "spark.log.level": "FATAL"}
SESSION = {"spark.sql.session.timeZone": "UTC", "spark.sql.ansi.enabled": "true"}  # as Spark 4 is by default
ENDED = (
    "The Spark application of this session has ended: it was stopped, or its cluster or JVM ended it. Start Spark and open a "
    "session on it; RESUME MODEL continues an interrupted training."
)
INSTALL_JAVA = "Install a JDK, version 17 or newer (Debian: apt-get install openjdk-17-jdk-headless), and set JAVA_HOME."


def session_of(master: str | None, conf: Mapping[str, str], remote: str | None = None) -> tuple[SparkSession, bool]:
    """Return the Spark session of this process, and whether it was started for this call.

    Args:
        master: where Spark runs; None for a session that runs already, spark-submit's choice, or local[*].
        conf: settings of a session that is started.
        remote: the server of Spark Connect whose session it is.

    Raises:
        NotAvailableError: PySpark or Java are missing or too old.
        StatementError: Spark runs already, elsewhere or with other settings; or it does not start.
    """
    if remote is not None:
        return connected(remote, conf, master), True
    running = running_session()
    if running is None:
        return started(master, conf), True
    application = application_of(running)
    check_running(application)
    if master is not None and master != application.master:
        place = application.master or "a server of Spark Connect"
        raise StatementError(
            f"Spark runs in this process already, on {place}, not on {master}. Leave master out to use it, or stop it first."
        )
    if differing := {name: value for name, value in conf.items() if running.conf.get(name, None) != value}:
        name, value = next(iter(differing.items()))
        raise StatementError(
            f"Spark runs in this process already, with {name} = {running.conf.get(name, None)}, not {value}. Set it there, or "
            "stop that session first."
        )
    return running, False


def running_session() -> SparkSession | None:
    """Return the session that this process has, of this thread or else of another, or on a context alone; None: it has none.

    Raises:
        NotAvailableError: PySpark is missing or too old.
    """
    require_pyspark()
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    if (active := SparkSession.getActiveSession()) is not None:
        return active
    if SparkContext._active_spark_context is not None:
        return SparkSession.builder.getOrCreate()
    connect: Any = sys.modules.get("pyspark.sql.connect.session")
    return cast("SparkSession | None", connect and connect.SparkSession._get_default_session())


def check_startable() -> None:
    """Require Java, but where spark-submit has found one.

    Raises:
        NotAvailableError: there is none.
    """
    if SUBMITTED not in os.environ:
        require_java()


def started(master: str | None, conf: Mapping[str, str]) -> SparkSession:
    """Start Spark."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    check_startable()
    submitted = SUBMITTED in os.environ
    builder = SparkSession.builder
    if master is not None or not submitted:
        builder = builder.master(master or "local[*]")
    for name, value in {**({} if submitted else STATIC), **conf}.items():
        builder = builder.config(name, value)
    try:
        with contextlib.nullcontext() if submitted else executors_python(), warnings.catch_warnings():
            # JAX warns of forks, which is right for those that go on in Python; this one starts Java at once.
            warnings.filterwarnings("ignore", r"os\.fork\(\) was called", RuntimeWarning)
            with keeping_interrupts():
                spark = builder.getOrCreate()
    except (PySparkException, Py4JJavaError, RuntimeError, OSError) as error:
        raise StatementError(f"Spark does not start: {plain(root_cause(str(error)))} Its own messages are above.") from error
    given = spark.sparkContext.getConf()
    for name, value in SESSION.items():
        if not given.contains(name):
            spark.conf.set(name, value)
    return spark


def connected(remote: str, conf: Mapping[str, str], master: str | None) -> SparkSession:
    """Open a session of Spark Connect.

    Raises:
        NotAvailableError: a package of Spark Connect is missing.
        StatementError: a master is given, too, or no server gives a session.
    """
    require_pyspark()
    if master is not None:
        raise StatementError("Spark runs where a master starts it, or behind a server: leave either master or remote out.")
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    from .connect import reachable

    url = urlsplit(remote)
    if url.scheme == "sc" and not reachable(f"{url.hostname}:{url.port or SERVER_PORT}"):
        raise StatementError(f"No server of Spark Connect listens at {remote}. Start one, or correct the address.")
    try:
        builder = SparkSession.builder.remote(remote)
        for name, value in conf.items():
            builder = builder.config(name, value)
        spark = builder.create()
        for name, value in SESSION.items():
            if name not in conf:
                spark.conf.set(name, value)
    except ImportError as error:
        raise NotAvailableError(needing("A session of Spark Connect needs its packages", "connect")) from error
    except (PySparkException, RuntimeError, OSError) as error:
        raise StatementError(
            f"The server of Spark Connect at {remote} gives no session: {plain(root_cause(str(error)))}"
        ) from error
    return spark


@contextmanager
def keeping_interrupts() -> Iterator[None]:
    """Keep what Ctrl-C does from PySpark, which takes it when an application starts in the block: its handler asks Java while
    an answer is read, which fails, with stacks. Jobs of ours are cancelled by us (actions.py)."""
    before = signal.getsignal(signal.SIGINT)
    logging.getLogger().addFilter(is_no_interrupt)
    yield
    if current_thread() is main_thread():
        signal.signal(signal.SIGINT, before)


def is_no_interrupt(record: logging.LogRecord) -> bool:
    """Return whether a record is to be written: py4j's of a call that Ctrl-C ended is not, as its caller sees that."""
    error = record.exc_info[1] if record.exc_info else None
    return not isinstance(error, KeyboardInterrupt) and "reentrant call" not in str(getattr(error, "__context__", None))


def check_session(spark: object) -> SparkSession:
    """Return a session that is one of Spark.

    Raises:
        NotAvailableError: it is none.
    """
    require_pyspark()
    from pyspark.sql import SparkSession

    if not (isinstance(spark, SparkSession) or is_connect(spark)):
        raise NotAvailableError(
            f"An engine is 'duckdb', 'spark' or a Spark session of this process, got {type(spark).__module__}."
            f"{type(spark).__qualname__}."
        )
    return cast("SparkSession", spark)


def check_running(application: Application) -> None:
    """Require that an application runs.

    Raises:
        EngineEndedError: it was stopped, here or by its cluster, or its JVM is gone.
    """
    if application.ended():
        raise EngineEndedError(ENDED)


def require_pyspark() -> None:
    """Require PySpark of a version that has what we use."""
    try:
        import pyspark
    except ImportError as error:
        raise NotAvailableError(needing("The engine spark needs PySpark", "spark")) from error
    if tuple(map(int, re.findall(r"\d+", pyspark.__version__)[:3])) < OLDEST:  # vendors write 3.5.4+amzn.0 and the like
        wanted = ".".join(map(str, OLDEST))
        raise NotAvailableError(f"The engine spark needs PySpark {wanted} or newer, got {pyspark.__version__}. Upgrade it.")


def require_java() -> None:
    """Require a java program to start Spark with."""
    home = os.environ.get("JAVA_HOME")
    if home and not (Path(home) / "bin" / "java").exists():
        raise NotAvailableError(f"JAVA_HOME is {home}, where there is no bin/java. {INSTALL_JAVA}")
    if not home and shutil.which("java") is None:
        raise NotAvailableError(f"The engine spark needs Java, and no java is found. {INSTALL_JAVA}")


@contextmanager
def executors_python() -> Iterator[None]:
    """Let executors run this Python, unless the user has set another."""
    if "PYSPARK_PYTHON" in os.environ:
        yield
        return
    os.environ["PYSPARK_PYTHON"] = sys.executable
    try:
        yield
    finally:
        del os.environ["PYSPARK_PYTHON"]
