"""Our own code in a task of Spark."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator

from ...stacks import roomy
from ..tasks import Task


def in_task(function: Callable[[Task], None]) -> Callable[[Iterable[int]], Iterator[int]]:
    """Return what a Spark task does with its partition, one number."""

    def run(numbers: Iterable[int]) -> Iterator[int]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None  # this runs in a task
        gc.freeze()  # Spark collects garbage after each task of a process: let it skip objects that earlier tasks left for good
        for number in numbers:
            roomy(function)(Task(number, context.attemptNumber(), context.cpus()))
            yield number

    return run
