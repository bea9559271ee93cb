"""Our own code in tasks of a Spark application."""

from __future__ import annotations

import re
import threading
import time
import uuid
from collections.abc import Callable

from ...errors import CancelledError, EngineEndedError, LostError, StatementError, TrainingError
from ..tasks import Running, Task
from ..waiting import held
from .application import Application
from .failures import is_loss, plain, root_cause
from .room import PYTHON, UNBOUNDED, WORDS, check_gang, is_dynamic, local_cores
from .start import ENDED, check_running

MEBIBYTE = 1 << 20
UNLIMITED = re.compile(r"local|spark://")  # there the machine limits memory, except the JVM's
COMING_SECONDS = 30.0
POLL_SECONDS = 0.2
OVERHEAD_FACTOR = 0.1
LEAST_OVERHEAD_MEBIBYTES = 384
DEFAULT_EXECUTOR_MEBIBYTES = 1024
LEAST_PYTHON_MEBIBYTES = 1024  # MiB of address space, which that setting limits: what Python and JAX take without rows
SHUT_DOWN = "SparkContext was shut down"
CANCELLED = re.compile(r"\[SPARK_JOB_CANCELLED\]|\[OPERATION_CANCELED\]|\bJob \d+ cancelled\b")  # Spark 4, Connect, Spark 3


class SparkTasks:
    """Starts tasks in a session's application, as jobs beside its queries.

    A job belongs to a daemon thread, so that a driver which ends takes it along.
    """

    words = WORDS

    def __init__(self, application: Application) -> None:
        self._application = application
        self._master = application.master

    @property
    def host(self) -> str:
        """See Tasks."""
        with held():
            check_running(self._application)
            return self._application.host()

    def slots(self, wanted: int, gang: bool) -> int:
        """See Tasks; dynamic allocation counts with all executors that it may take."""
        cpus = self._number("spark.task.cpus")
        if is_dynamic(self._setting):
            check_gang(gang)
            most = int(self._setting("spark.dynamicAllocation.maxExecutors") or UNBOUNDED)
            return most * (self._number("spark.executor.cores") // cpus)
        deadline = time.monotonic() + (0 if on_one_machine(self._master) else COMING_SECONDS)
        while (found := self._cores() // cpus) < wanted and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
        return found

    def _cores(self) -> int:
        """Return the cores of all executors; a setting that hides them is bypassed where possible."""
        if self._setting("spark.default.parallelism") is None:
            with held():
                return self._application.parallelism()
        if (local := local_cores(self._master)) is not None:
            return local
        return int(self._setting("spark.executor.instances") or UNBOUNDED) * self._number("spark.executor.cores")

    def memory_bytes(self) -> int | None:
        """See Tasks.

        Spark divides spark.executor.pyspark.memory by the cores of an executor, on every master, and limits each Python process
        to its part. Without it YARN and Kubernetes limit an executor's container; what that has beside the JVM's heap, the
        overhead, is shared by as many tasks as the executor runs at once. Other masters limit nothing.

        Source: BasePythonRunner.getWorkerMemoryMb of Spark; "Running Spark on YARN", memoryOverhead.
        """
        executor_cores = self._number("spark.executor.cores")
        if own := self._setting(PYTHON):
            if (granted := mebibytes(own) // executor_cores) < LEAST_PYTHON_MEBIBYTES:
                raise StatementError(
                    f"{PYTHON} = {own} grants the Python of a task {granted} MiB; without any rows it takes about "
                    f"{LEAST_PYTHON_MEBIBYTES}. Give {LEAST_PYTHON_MEBIBYTES * executor_cores}m or more, or leave it out."
                )
            return granted * MEBIBYTE
        if UNLIMITED.match(self._master):
            return None
        heap = mebibytes(self._setting("spark.executor.memory") or f"{DEFAULT_EXECUTOR_MEBIBYTES}m")
        factor = float(self._setting("spark.executor.memoryOverheadFactor") or OVERHEAD_FACTOR)
        given = self._setting("spark.executor.memoryOverhead")
        overhead = mebibytes(given) if given else max(LEAST_OVERHEAD_MEBIBYTES, int(heap * factor))
        return overhead // max(1, executor_cores // self._number("spark.task.cpus")) * MEBIBYTE

    def start(self, function: Callable[[Task], None], count: int, name: str, gang: bool) -> Running:
        """See Tasks."""
        job = None
        try:
            with held():
                check_running(self._application)
                job = SparkJob(self._application, function, count, name, gang)
        except KeyboardInterrupt:
            if job is not None:  # no one else knows it
                job.cancel()
                while not job.wait(POLL_SECONDS):  # it may not have been there yet
                    job.cancel()
            raise
        return job

    def _number(self, name: str) -> int:
        """Return a setting that is 1 where it is not given."""
        return int(self._setting(name) or 1)

    def _setting(self, name: str) -> str | None:
        with held():
            check_running(self._application)
            value: str | None = self._application.spark.conf.get(name, None)
        return value


class SparkJob:
    """A job whose tasks run a function, and the thread that waits for it.

    The job is one of the thread that makes it: its job group, tags and scheduler pool are the job's too.
    """

    def __init__(self, application: Application, function: Callable[[Task], None], count: int, name: str, gang: bool) -> None:
        self._application = application
        self._tag = f"xpsql-{uuid.uuid4().hex}"
        self._ended = threading.Event()
        self._error: Exception | None = None
        self._cancelled = False
        self._name = name
        self._work = application.tasks(function, count, name, gang)
        application.begin(self._run, self._tag, name)

    def _run(self) -> None:
        try:
            self._work()
        except Exception as error:
            self._error = error
        finally:
            self._ended.set()

    def wait(self, seconds: float) -> bool:
        """See Running."""
        if not self._ended.wait(seconds):
            return False
        if self._error is not None and not self._cancelled:
            message = str(self._error)
            if SHUT_DOWN in message:  # it may not yet say that it has ended
                raise EngineEndedError(ENDED) from self._error
            if CANCELLED.search(message):
                raise CancelledError(f"The job {self._name!r} was cancelled. {plain(message)}") from self._error
            failure = LostError if is_loss(message) else TrainingError
            raise failure(f"{self._name} failed: {plain(root_cause(message))}") from self._error
        return True

    def cancel(self) -> None:
        """See Running."""
        self._cancelled = True
        if not self._ended.is_set():
            self._application.cancel(self._tag)


def on_one_machine(master: str) -> bool:
    """Return whether the tasks of a master run in the driver's own process."""
    return local_cores(master) is not None


def mebibytes(text: str) -> int:
    """Return a size of Spark's settings, such as 512m or 2g, in MiB, which a bare number means."""
    units = {"k": 1 / 1024, "m": 1, "g": 1024, "t": 1024 * 1024}
    digits = text.strip().lower().rstrip("b").rstrip("i")
    return int(float(digits[:-1]) * units[digits[-1]]) if digits[-1:] in units else int(digits)
