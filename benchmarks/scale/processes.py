"""Trainings of real shards and workers, each a process of this machine, and what they take.

Processes are started once; then they train with any batch size, as many of them as are asked for. A worker reads the log again
and again, so that all rows are there after the first pass.
"""

from __future__ import annotations

import dataclasses
import itertools
import multiprocessing
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from benchmarks.process import connect
from benchmarks.transport import HOST, SECRET, cpu_of

if TYPE_CHECKING:
    from xpsql.platform.input.batches import Batch
    from xpsql.platform.ps.client import Handle
    from xpsql.platform.ps.messages import Keys, Pulled, Push
    from xpsql.platform.training.prepared import TrainingInput

CONTEXT = multiprocessing.get_context("forkserver")
IMPORTED = ["jax", "optax", "pyarrow.parquet", "xpsql.platform.training.tasks.worker_task", "benchmarks.scale.processes"]
MOST_CONNECTIONS, LEAST_STEPS, WAIT_SECONDS = 2048, 3, 120.0


class Asked(NamedTuple):
    """A training that is measured.

    Attributes:
        shards, workers: how many of the processes take part.
        ahead: pulls under way while a worker computes.
        late: an answer to a pull comes no sooner than so many seconds after it was asked for.
        warm, seconds: how long it runs before it is measured, and then.
    """

    shards: int
    workers: int
    batch: int
    sync: str = "asp"
    ahead: int = 0
    late: float = 0.0
    warm: float = 1.0
    seconds: float = 3.0


class Taken(NamedTuple):
    """What a worker measured of itself.

    Attributes:
        ends: when each batch was learned; waves: of each pull, when it was asked for and answered. Seconds of the clock that
            all processes of a machine share.
        keys: of a batch, the mean; batches: how many there were.
        cpu: seconds of the process, of which reading takes as much a row as in the whole training: it comes a chunk at a time.
        reading, calling: of it, its thread that reads, and its calls of shards.
    """

    ends: list[float]
    waves: list[tuple[float, float]]
    keys: float
    batches: int
    cpu: float
    reading: float
    calling: float


class Found(NamedTuple):
    """What a training came to: of each worker what it took, and of each shard CPU seconds: in all, in pulls, in pushes."""

    workers: list[Taken]
    shards: list[tuple[float, float, float]]

    def rate(self, batch: int) -> float:
        """Return rows a second of all workers, each from its first batch to its last."""
        spans = [(len(one.ends) - 1, one.ends[-1] - one.ends[0]) for one in self.workers if len(one.ends) > 1]
        return sum(count * batch / seconds for count, seconds in spans)

    def waves(self) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Return the seconds of all waves of pulls."""
        return np.array([end - start for one in self.workers for start, end in one.waves])


Started = tuple[Pipe, int]
"""What a process says and is told, and its number."""


class Processes:
    """Shards and workers that wait to train."""

    def __init__(self, given: TrainingInput, shards: int, workers: int) -> None:
        with ExitStack() as stack:
            self.shards = [start(stack, serve, number, given) for number in range(shards)]
            self.workers = [start(stack, work, number, given) for number in range(workers)]
            self._stack = stack.pop_all()
        for pipe, _ in (*self.shards, *self.workers):
            received(pipe)

    def measure(self, asked: Asked, idle: int = 0) -> Found:
        """Train, and return what it took; the first shard has so many idle connections beside."""
        from xpsql.platform.ps.remote import RemoteClient
        from xpsql.platform.ps.transport.connection_limits import make_room

        make_room(idle)
        shards, workers = self.shards[: asked.shards], self.workers[: asked.workers]
        for pipe, _ in shards:
            pipe.send(asked)
        addresses = [received(pipe) for pipe, _ in shards]
        with ExitStack() as stack:
            for _ in range(idle):
                stack.enter_context(RemoteClient(addresses[:1], SECRET))
            return self._measured(asked, shards, workers, addresses)

    def _measured(self, asked: Asked, shards: list[Started], workers: list[Started], addresses: list[Any]) -> Found:
        for pipe, _ in workers:
            pipe.send((asked, addresses))
        for pipe, _ in workers:
            received(pipe)  # warm
        before, begin = [cpu_of(pid) for _, pid in shards], time.perf_counter() + 0.05
        for pipe, _ in shards:
            pipe.send("begin")
        for pipe, _ in workers:
            pipe.send(begin)
        taken = [Taken(*received(pipe)) for pipe, _ in workers]
        used = [cpu_of(pid) - first for (_, pid), first in zip(shards, before, strict=True)]
        for pipe, _ in shards:
            pipe.send("end")
        handled = [received(pipe) for pipe, _ in shards]
        return Found(taken, [(cpu, *own) for cpu, own in zip(used, handled, strict=True)])

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, *raised: object) -> None:
        self._stack.close()


def start(stack: ExitStack, function: Callable[..., None], number: int, given: TrainingInput) -> Started:
    """Start a process; it ends with the stack."""
    CONTEXT.set_forkserver_preload(IMPORTED)
    ours, theirs = CONTEXT.Pipe()
    process = CONTEXT.Process(target=function, args=(number, given, theirs), daemon=True)
    process.start()
    theirs.close()
    stack.callback(process.join)
    stack.callback(process.kill)
    assert process.pid is not None
    return ours, process.pid


def received(pipe: Pipe) -> Any:
    """Return the next message of a process.

    Raises:
        TimeoutError: there is none for two minutes.
    """
    if not pipe.poll(WAIT_SECONDS):
        raise TimeoutError(f"A process said nothing for {WAIT_SECONDS:.0f} s.")
    return pipe.recv()


@contextmanager
def given_of(statement: str, folder: Path) -> Iterator[TrainingInput]:
    """Prepare a TRAIN statement whose query is read in place, for processes that learn from it."""
    from xpsql.platform.sql.statements.train import Train
    from xpsql.platform.training.compiled import prepare_jax
    from xpsql.platform.training.preparation.base import Mode, Preparation
    from xpsql.platform.training.preparation.stages import checked, prepared
    from xpsql.warehouse.files import VersionFiles

    with TemporaryDirectory(dir=folder) as name, connect(name) as session:
        ((command, *_),) = (step for step in session.parse(statement, {}, None))
        assert isinstance(command, Train)
        prepare_jax()
        scan = session.engine.scan(command.plan.query)
        given = Preparation(Mode.EXPLAIN, command.plan, session.engine, None, None, scan, None, lambda note: None)
        yield prepared(checked(given), VersionFiles(Path(name))).input


def serve(number: int, given: TrainingInput, pipe: Pipe) -> None:
    """Be a shard, in one training after the other."""
    from xpsql.platform.ps._native import keep_freed_memory
    from xpsql.platform.ps.gang import Gang
    from xpsql.platform.ps.service import PULL, PUSH, shard_handlers
    from xpsql.platform.ps.transport.connection_limits import room_for
    from xpsql.platform.ps.transport.server import Server
    from xpsql.platform.ps.transport.wire import Handler
    from xpsql.platform.training.compiled import prepare_task
    from xpsql.platform.training.recipe import recipe_of
    from xpsql.platform.training.row_files.passes import begin
    from xpsql.platform.training.row_files.rows import new_shard
    from xpsql.platform.training.tasks.shard_task import KEPT_BYTES

    keep_freed_memory(KEPT_BYTES)
    prepare_task(1)
    spent = {PULL.kind: 0.0, PUSH.kind: 0.0}

    def timed(handler: Handler[Any, Any]) -> Handler[Any, Any]:
        def answer(request: Any) -> Any:
            began = time.thread_time()
            answered = handler.answer(request)
            spent[handler.call.kind] += time.thread_time() - began
            return answered

        return Handler(handler.call, answer) if handler.call.kind in spent else handler

    pipe.send(None)
    while True:
        asked: Asked = pipe.recv()
        recipe = recipe_of(given.plan, given.columns)
        shard = new_shard(recipe, number, asked.shards, given.columns, 0)
        shard.watermarks = None  # the same rows come again and again
        begin({number: shard}, asked.shards, recipe, given.baseline)
        gang = Gang(shard, asked.workers, lambda late, seconds: None, asked.sync == "hybrid")
        served = gang if asked.sync in ("bsp", "hybrid") else shard
        handlers, limits = [timed(one) for one in shard_handlers(served)], room_for(MOST_CONNECTIONS)
        with Server(f"shard {number}", handlers, SECRET, HOST, limits) as server:
            pipe.send(server.address)
            pipe.recv()  # begin
            spent.update(dict.fromkeys(spent, 0.0))
            pipe.recv()  # end
            pipe.send((spent[PULL.kind], spent[PUSH.kind]))
            gang.end()


class TimedClient:
    """A client that notes what its calls take, and lets answers to pulls be late."""

    def __init__(self, client: Any, late: float) -> None:
        self._client, self._late = client, late
        self.waves: list[tuple[float, float]] = []
        self.calling = 0.0

    def start_pull(self, keys: Keys, size: int, dense: bool = True) -> Handle[Pulled]:
        began, cpu = time.perf_counter(), time.thread_time()
        handle = self._client.start_pull(keys, size, dense)
        self.calling += time.thread_time() - cpu
        return TimedAnswer(self, handle, began, self._late)

    def start_pull_dense(self) -> Handle[Pulled]:
        return TimedAnswer(self, self._client.start_pull_dense(), 0.0, 0.0)

    def start_push(self, push: Push) -> Handle[object]:
        cpu = time.thread_time()
        handle = self._client.start_push(push)
        self.calling += time.thread_time() - cpu
        return TimedAnswer(self, handle, 0.0, 0.0)


class TimedAnswer(NamedTuple):
    """An answer on its way; `began`: when a pull was asked for, 0 of others."""

    client: TimedClient
    handle: Handle[Any]
    began: float
    late: float

    def result(self) -> Any:
        """See Handle."""
        cpu = time.thread_time()
        found = self.handle.result()
        self.client.calling += time.thread_time() - cpu
        if self.began:
            time.sleep(max(0.0, self.began + self.late - time.perf_counter()))
            self.client.waves.append((self.began, time.perf_counter()))
        return found


def work(number: int, given: TrainingInput, pipe: Pipe) -> None:
    """Be a worker, in one training after the other."""
    from xpsql.platform.ps.remote import RemoteClient
    from xpsql.platform.training.compiled import prepare_task

    prepare_task(1)
    pipe.send(None)
    while True:
        asked, addresses = pipe.recv()
        sized = dataclasses.replace(given, batch_size=asked.batch)
        with RemoteClient(addresses, SECRET) as client:
            pipe.send(tuple(learned(number, sized, asked, client, pipe)))


def learned(number: int, given: TrainingInput, asked: Asked, client: Any, pipe: Pipe) -> Taken:
    """Learn until the time is over, and return what that took."""
    from xpsql.platform.input.dealing import TurnAssignment
    from xpsql.platform.input.source import End
    from xpsql.platform.input.timing import Clocks
    from xpsql.platform.ps.watermarks import Turn
    from xpsql.platform.training.online.worker import Worker
    from xpsql.platform.training.recipe import recipe_of

    prepared = given.with_recipe(recipe_of(given.plan, given.columns), None, None)
    timed, clocks, over = TimedClient(client, asked.late), Clocks(), False
    row = [0.0]  # seconds of reading a row
    ends, keys, reading, began = list[float](), list[int](), [0.0], time.perf_counter()
    told, start, until, before = False, 0.0, 0.0, (0.0, 0.0, 0.0)
    passes = itertools.count(number)

    def deal() -> TurnAssignment | None:
        return None if over else TurnAssignment(Turn(next(passes), number % len(given.splits)))

    def read() -> Generator[Any, None, None]:
        rows = 0
        for item in prepared.source(0).batches(deal, clocks.reading):
            reading[0] = time.thread_time()
            rows += 0 if isinstance(item, End) else item.examples
            if isinstance(item, End) or not row[0]:  # a split is a chunk, which is encoded before its first batch comes
                row[0] = reading[0] / (rows if isinstance(item, End) else given.counts.rows[0])
            yield item

    def done(batch: Batch, predictions: object) -> None:
        nonlocal until, before, told, start
        ends.append(now := time.perf_counter())
        keys.append(len(batch.keys))
        if not told and now > began + asked.warm and len(ends) >= LEAST_STEPS:
            pipe.send(None)
            told = True
        start = pipe.recv() if told and not start and pipe.poll() else start  # nobody waits: workers in step do for each other
        if start and not until and now >= start:
            until, before = start + asked.seconds, (time.process_time(), reading[0], timed.calling)
            del ends[:], keys[:], timed.waves[:]

    def begin() -> bool:
        return not until or time.perf_counter() < until

    worker = Worker(number, timed, prepared.recipe, done, lambda end: None, clocks.learning, asked.sync == "hybrid")  # type: ignore[arg-type]
    with prepared.ahead(read) as ahead:
        if asked.ahead:
            worker.learn_ahead(ahead, begin, asked.ahead, lambda item: True)
        else:
            worker.learn(ahead, begin, asked.sync == "ssp")
        over = True
    after = time.process_time(), reading[0], timed.calling
    client.leave(number)
    cpu, read_, calling = (last - first for first, last in zip(before, after, strict=True))
    steady = row[0] * len(keys) * asked.batch
    return Taken(ends, timed.waves, float(np.mean(keys)) if keys else 0.0, len(keys), cpu - read_ + steady, steady, calling)


def statement_of(using: str, log: Path) -> str:
    """Return the statement that is trained."""
    return f"TRAIN MODEL m USING {using} LABEL label IGNORE (ts) AS SELECT * FROM parquet.`{log}/train.parquet`"
