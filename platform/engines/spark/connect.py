"""The application behind a session of Spark Connect, which has no SparkContext here: its tasks are those of `mapInArrow`."""

from __future__ import annotations

import re
import secrets
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

from ...errors import NotAvailableError
from ..tasks import Task
from ..waiting import held
from .application import Work
from .in_task import in_task

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OPTIMIZED = re.compile(r"== Optimized Logical Plan ==\n(?P<plan>.*?)\n\n?== Physical Plan ==", re.DOTALL)
MANY = 1 << 20
"""Rows of the query whose partitions tell how many tasks run at once: each has some."""
REACH_SECONDS = 3.0


class ConnectApplication:
    """See Application. Jobs have no descriptions: the tag stands for one."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self.master = str(spark.conf.get("spark.master", None) or "")
        self._endpoint = str(cast(Any, spark).client._builder.endpoint)
        self._parallelism: int | None = None
        self._host: str | None = None

    def ended(self) -> bool:
        """See Application. PySpark asks a server that is gone again and again, for minutes."""
        return bool(cast(Any, self.spark).is_stopped) or not reachable(self._endpoint)

    def host(self) -> str:
        """See Application: found by tasks that try the addresses of this machine, once."""
        if self._host is None:
            self._host = self._reached()
        return self._host

    def _reached(self) -> str:
        candidates = addresses()
        with Echo() as echo:
            port, word = echo.port, echo.word
            found = self.everywhere(lambda: iter([",".join(one for one in candidates if answers(one, port, word))]))
        for candidate in candidates:
            if all(candidate in one.split(",") for one in found):
                return candidate
        raise NotAvailableError(
            f"Spark's executors reach this process by none of its addresses, {', '.join(candidates)}, as a training needs. "
            "Run this program in the cluster's network, such as on the machine of the Connect server, or allow "
            "connections from executors to it."
        )

    def parallelism(self) -> int:
        """See Application."""
        if self._parallelism is None:
            from pyspark.sql.functions import spark_partition_id

            self._parallelism = self.spark.range(MANY).select(spark_partition_id()).distinct().count()
        return self._parallelism

    def begin(self, work: Work, tag: str, name: str | None = None) -> None:
        """See Application."""
        from pyspark import InheritableThread

        def tagged() -> None:
            cast(Any, self.spark).addTag(tag)
            work()

        given: dict[str, Any] = {} if name is None else {"name": name, "daemon": True}
        InheritableThread(tagged, session=self.spark, **given).start()

    def cancel(self, tag: str) -> None:
        """See Application."""
        with held():
            cast(Any, self.spark).interruptTag(tag)

    def tasks(self, function: Callable[[Task], None], count: int, name: str, gang: bool) -> Work:
        """See Application. All rows are asked for: Spark refuses part of a gang's."""
        run = in_task(function)

        def on_arrow(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for number in run(number for batch in batches for number in batch.column(0).to_pylist()):
                yield pa.record_batch({"number": [number]})

        rows = self.spark.range(0, count, 1, count).mapInArrow(on_arrow, "number bigint", barrier=gang)
        return lambda: cast(None, rows.collect())

    def everywhere(self, found: Callable[[], Iterator[str]]) -> list[str]:
        """See Application."""
        count = self.parallelism()

        def each(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for _ in batches:
                yield pa.record_batch({"found": pa.array(list(found()), pa.string())})

        return [row["found"] for row in self.spark.range(0, count, 1, count).mapInArrow(each, "found string").collect()]

    def described(self, text: str) -> AbstractContextManager[None]:
        """See Application: jobs have none here."""
        return nullcontext()

    def active(self) -> AbstractContextManager[None]:
        """See Application: a session's settings always hold for what it is asked."""
        return nullcontext()

    def plan(self, frame: DataFrame) -> str:
        """See Application; empty where EXPLAIN does not show it as it did."""
        found = OPTIMIZED.search(cast(Any, frame)._explain_string(extended=True))
        return found["plan"] if found else ""


def reachable(endpoint: str) -> bool:
    """Return whether somebody listens at an endpoint, `host:port`."""
    host, _, port = endpoint.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), REACH_SECONDS).close()
    except OSError:
        return False
    return True


class Echo:
    """Listens at all addresses of this machine, and answers with a word of its own; tasks so tell it from other programs."""

    def __init__(self) -> None:
        self.word = secrets.token_hex(16)

    def __enter__(self) -> Echo:
        self._socket = socket.create_server(("", 0))
        self.port: int = self._socket.getsockname()[1]
        threading.Thread(target=self._answer, name="xpsql: find an address that tasks reach", daemon=True).start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._socket.close()

    def _answer(self) -> None:
        while True:
            try:
                asking, _ = self._socket.accept()
            except OSError:  # it has been closed
                return
            with asking:
                asking.sendall(self.word.encode())


def answers(host: str, port: int, word: str) -> bool:
    """Return whether an address is that of whoever knows a word. Runs in tasks."""
    try:
        with socket.create_connection((host, port), REACH_SECONDS) as asked:
            asked.settimeout(REACH_SECONDS)
            return asked.makefile("rb").read() == word.encode()
    except OSError:
        return False


def addresses() -> Sequence[str]:
    """Return the addresses by which tasks may reach this process, the narrowest first."""
    found = ["127.0.0.1"]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as way:
        try:
            way.connect(("192.0.2.1", 9))  # sends nothing: tells the address of the way out
            found.append(way.getsockname()[0])
        except OSError:  # there is no way out
            pass
    return list(dict.fromkeys([*found, socket.gethostname()]))
