"""Waiting for Spark so that Ctrl-C ends the jobs of a statement, which otherwise go on, and write where the next one does."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from .spark_failures import unlogged
from .spark_plans import active
from .waiting import awaited

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

T = TypeVar("T")


@dataclass(frozen=True)
class Tagged:
    """The jobs of an application that have a tag."""

    context: SparkContext
    tag: str

    def interrupt(self) -> None:
        """Cancel them."""
        self.context.cancelJobsWithTag(self.tag)


def acted(spark: SparkSession, run: Callable[[], T]) -> T:
    """Return what `run` does with a session, in a thread of its own with the job group and other properties of this one.

    PySpark cancels no job at Ctrl-C where this thread waits for an answer of the JVM.

    Raises:
        KeyboardInterrupt: once its jobs have ended.
    """
    from pyspark import InheritableThread

    jobs = Tagged(spark.sparkContext, f"xpsql-{uuid.uuid4().hex}")

    def tagged() -> T:
        jobs.context.addJobTag(jobs.tag)
        with unlogged(), active(spark):
            return run()

    return awaited(jobs, tagged, partial(InheritableThread, session=spark))
