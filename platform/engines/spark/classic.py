"""The application that a session of this process has: its SparkContext, and the JVM behind it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from inspect import signature
from typing import TYPE_CHECKING, Any, cast

from ..tasks import Task
from ..waiting import held
from .application import Work
from .in_task import in_task

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DESCRIPTION = "spark.job.description"


class ClassicApplication:
    """See Application."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self._context = spark.sparkContext
        self.master = str(self._context.master)

    def ended(self) -> bool:
        """See Application."""
        from py4j.protocol import Py4JError

        try:
            return bool(cast(Any, self.spark)._jsparkSession.sparkContext().isStopped())
        except (Py4JError, OSError):  # nobody answers
            return True

    def host(self) -> str:
        """See Application."""
        return str(self.spark.conf.get("spark.driver.host", None) or "127.0.0.1")

    def parallelism(self) -> int:
        """See Application."""
        return int(self._context.defaultParallelism)

    def begin(self, work: Work, tag: str, name: str | None = None) -> None:
        """See Application."""
        from pyspark import InheritableThread

        def tagged() -> None:
            if name is not None:
                self._context.setJobDescription(name)
                self._context.setInterruptOnCancel(True)
            self._context.addJobTag(tag)
            work()

        given: dict[str, Any] = {} if name is None else {"name": name, "daemon": True}
        if "session" in signature(InheritableThread).parameters:  # not Spark 3
            given["session"] = self.spark
        InheritableThread(tagged, **given).start()

    def cancel(self, tag: str) -> None:
        """See Application."""
        with held():
            self._context.cancelJobsWithTag(tag)

    def tasks(self, function: Callable[[Task], None], count: int, name: str, gang: bool) -> Work:
        """See Application."""
        numbers = self._context.parallelize(range(count), count).setName(name)
        rows = (numbers.barrier() if gang else numbers).mapPartitions(in_task(function))
        return lambda: cast(None, rows.count())

    def everywhere(self, found: Callable[[], Iterator[str]]) -> list[str]:
        """See Application."""
        count = self.parallelism()

        def each(_: Iterable[int]) -> Iterator[str]:
            return found()

        return list(self._context.parallelize(range(count), count).mapPartitions(each).collect())

    @contextmanager
    def described(self, text: str) -> Iterator[None]:
        """See Application."""
        before = self._context.getLocalProperty(DESCRIPTION)
        self._context.setJobDescription(before or text)
        try:
            yield
        finally:
            self._context.setLocalProperty(DESCRIPTION, before)  # type: ignore[arg-type]  # None unsets it

    @contextmanager
    def active(self) -> Iterator[None]:
        """See Application."""
        sessions, java = cast(Any, self.spark)._jvm.SparkSession, cast(Any, self.spark)._jsparkSession
        before = sessions.getActiveSession()
        sessions.setActiveSession(java)
        try:
            yield
        finally:
            if before.isDefined():
                sessions.setActiveSession(before.get())
            else:
                sessions.clearActiveSession()

    def plan(self, frame: DataFrame) -> str:
        """See Application. It equals EXPLAIN EXTENDED's, which would look for the files, read their schema and plan the query
        all over again."""
        with self.active():
            text: str = cast(Any, frame)._jdf.queryExecution().optimizedPlan().toString()
        return text
