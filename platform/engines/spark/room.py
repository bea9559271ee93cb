"""How many tasks Spark has room for, as its settings tell; they may be those of a Spark that has not started."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from ...cores import cores
from ...errors import StatementError
from ..tasks import TaskWords

UNBOUNDED = 1 << 20
LOCAL = re.compile(r"local(?:\[(\*|\d+).*)?$")
ALLOCATED = re.compile(r"yarn|k8s://")  # there spark.executor.instances is how many there are
DYNAMIC = "spark.dynamicAllocation.enabled"
PYTHON = "spark.executor.pyspark.memory"
WORDS = TaskWords(
    "Spark",
    "grants the Python of a task {}, a part of its executor's, outside of the JVM",
    "Give Spark more cores, such as --master 'local[4]'",
    f"Raise spark.executor.memoryOverhead (or {PYTHON})",
)


class ToldRoom:
    """The room that a master and its settings promise, at most; files of defaults may have settings, too.

    Where they do not tell it, it has no bound: Spark itself says what it has, once it runs.
    """

    words = WORDS

    def __init__(self, master: str, conf: Mapping[str, str]) -> None:
        self._master = master
        self._conf = conf

    def slots(self, wanted: int, gang: bool) -> int:
        """See Room."""
        cpus = self._number("spark.task.cpus") or 1
        if dynamic := is_dynamic(self._conf.get):
            check_gang(gang)
        elif (local := local_cores(self._master)) is not None:
            return local // cpus
        executors = self._number("spark.dynamicAllocation.maxExecutors" if dynamic else "spark.executor.instances")
        each = self._number("spark.executor.cores")
        if executors is None or each is None or DYNAMIC not in self._conf or not ALLOCATED.match(self._master):
            return UNBOUNDED
        return executors * (each // cpus)

    def _number(self, name: str) -> int | None:
        """Return a setting that is a number; None where it is none, which Spark refuses, or is not given."""
        text = self._conf.get(name, "")
        return int(text) if text.isdecimal() else None


def is_dynamic(setting: Callable[[str], str | None]) -> bool:
    """Return whether Spark takes and gives back executors as it needs them."""
    return (setting(DYNAMIC) or "false").lower() == "true"


def check_gang(gang: bool) -> None:
    """Refuse tasks that start together where executors come and go.

    Raises:
        StatementError: they are to.
    """
    if gang:
        raise StatementError(
            f"sync = 'bsp' and 'hybrid' need workers that start together, which Spark refuses where {DYNAMIC} is true. Set "
            "that to false before Spark starts, or train with sync = 'asp' or 'ssp'."
        )


def local_cores(master: str) -> int | None:
    """Return the cores of a master whose tasks run in the driver's own process; None for another."""
    local = LOCAL.match(master)
    return None if local is None else cores() if local[1] == "*" else int(local[1] or 1)
