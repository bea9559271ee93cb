"""Batches of a query, each exactly once: what was pushed for one is in the rows or it is not, also after a restart.

The query is run once, and its rows are kept in the service's folder, so that every start sees the same rows in the same order.
A batch has a name, (input and pass, rank, number), under which its pushes go; shards apply a name once.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

import pyarrow as pa

from ...warehouse.durable import clear, make_folder, replace_text
from ...warehouse.locks import Lock
from ..errors import ModelError, OptionError
from ..ps.messages import BatchId
from ..session import connect
from .ahead import Needs

if TYPE_CHECKING:
    from ..session import Session

T = TypeVar("T")

MOST_PASSES = 1 << 12
WAIT_SECONDS = 3600.0
LOOK_SECONDS = 0.1
Files = Callable[[], Mapping[str, str | Path]]


class TakesBatches(Protocol):
    """What pushes the updates of batches: a client of a parameter server."""

    def order(self, what: str, values: Mapping[str, Any]) -> Mapping[str, Any]: ...
    def keeping(self) -> AbstractContextManager[Any]: ...
    def ahead(self, items: Iterable[T], needs: Needs[T], depth: int = 1) -> Iterator[T]: ...
    def push_batch(self, kept: Any, batch: BatchId, examples: int) -> None: ...
    def checkpoint(self, files: Mapping[str, str | Path] | None = None) -> str: ...


class BatchPlan(NamedTuple):
    """How a query is cut into batches.

    Attributes:
        query: its text; run: the name under which it is learned, once.
        batch_size: rows of a batch; passes: over all rows.
        rank, world: this process learns every `world`-th batch from number `rank` on.
        checkpoint_seconds: between checkpoints, which rank 0 takes between two batches; None: none.
        files: returns what is kept with them.
    """

    query: str
    run: str
    batch_size: int
    passes: int
    rank: int
    world: int
    checkpoint_seconds: float | None
    files: Files | None

    def check(self) -> None:
        """Refuse numbers that cannot be.

        Raises:
            OptionError: names the first.
        """
        bounds = {
            "batch_size": (self.batch_size, 1, 1 << 24),
            "passes": (self.passes, 1, MOST_PASSES),
            "world": (self.world, 1, 1 << 16),
            "rank": (self.rank, 0, self.world - 1),
        }
        for name, (value, low, high) in bounds.items():
            if not isinstance(value, int) or not low <= value <= high:
                raise OptionError(f"ps.batches expects {name} from {low} to {high:,}, got {value!r}.")

    @property
    def digest(self) -> str:
        """What the names of its batches depend on."""
        return hashlib.sha256(json.dumps([self.query, self.run, self.batch_size, self.world]).encode()).hexdigest()[:32]


class StagedInput(NamedTuple):
    """The rows of a query in files, and the number of this input among those of the service."""

    files: tuple[Path, ...]
    rows: int
    number: int


def batches(
    server: TakesBatches, folder: Path, plan: BatchPlan, session: Session | None, needs: Needs[pa.RecordBatch] | None
) -> Iterator[pa.RecordBatch]:
    """Yield the batches that are not learned yet; what is pushed while one is worked on goes when the next is asked for.

    Args:
        folder: of the service.
        session: that runs the query; None: one of the warehouse.
        needs: which rows a batch needs, to be pulled ahead; None: none are.

    Raises:
        StatementError: the query cannot run.
        LostError: shards were lost; `reconnect` and a further call go on from the checkpoint.
    """
    plan.check()
    staged = staged_input(folder / "input", plan, session)
    standing = {(p, s): n for p, s, n in server.order("standing", {})["turns"]}
    taken = time.monotonic()
    for number in range(plan.passes):
        name = staged.number * MOST_PASSES + number
        done = standing.get((name, plan.rank), 0)
        own = own_batches(staged, plan, done)
        for at, batch in enumerate(own if needs is None else server.ahead(own, needs), done):
            with server.keeping() as kept:
                yield batch
            server.push_batch(kept, BatchId(0, name, plan.rank, at), batch.num_rows)
            due = plan.checkpoint_seconds is not None and time.monotonic() - taken >= plan.checkpoint_seconds
            if due and plan.rank == 0:
                server.checkpoint(None if plan.files is None else plan.files())
                taken = time.monotonic()


def own_batches(staged: StagedInput, plan: BatchPlan, done: int) -> Iterator[pa.RecordBatch]:
    """Yield the batches of a rank from its number `done` on."""
    total = -(-staged.rows // plan.batch_size)
    wanted = range(plan.rank + done * plan.world, total, plan.world)
    if not wanted:
        return
    pieces, held, first = rows_of(staged), pa.table({}), 0  # `held` begins with row number `first`
    for number in wanted:
        start = number * plan.batch_size
        stop = min(start + plan.batch_size, staged.rows)
        while first + held.num_rows < stop:
            piece = next(pieces)
            skipped = first + held.num_rows
            if skipped + piece.num_rows <= start:
                first, held = skipped + piece.num_rows, piece.slice(0, 0)
            else:
                held = pa.concat_tables([held, piece]) if held.num_rows else piece
                first = first if held is not piece else skipped
        cut = held.slice(start - first, stop - start)
        held, first = held.slice(stop - first), stop
        yield cut.combine_chunks().to_batches()[0]


def rows_of(staged: StagedInput) -> Iterator[pa.Table]:
    """Yield the rows of an input in order."""
    import pyarrow.parquet as pq

    for path in staged.files:
        with pq.ParquetFile(path) as file:
            for group in range(file.num_row_groups):
                yield file.read_row_group(group)


def staged_input(root: Path, plan: BatchPlan, session: Session | None) -> StagedInput:
    """Return the rows of a query, which the first process that asks for them writes."""
    folder = root / plan.digest
    make_folder(root)
    with alone(root / "lock"):
        found = read_input(folder)
        if found is None:
            with contextlib.ExitStack() as stack:
                used = session or stack.enter_context(connect(warehouse=root.parents[2]))
                clear(folder)
                make_folder(folder)
                used.engine.stage(plan.query, folder)
            number = sum((other / "input.json").exists() for other in root.iterdir())
            files = sorted(path.name for path in folder.rglob("*.parquet"))
            values = {"files": files, "rows": counted(folder, files), "number": number, "query": plan.query, "run": plan.run}
            replace_text(folder / "input.json", json.dumps(values) + "\n")
            found = read_input(folder)
        assert found is not None
        return found


def read_input(folder: Path) -> StagedInput | None:
    """Return the rows that were written to a folder; None where they were not, or not to the end.

    Raises:
        ModelError: they are damaged.
    """
    path = folder / "input.json"
    if not path.exists():
        return None
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        return StagedInput(tuple(folder / name for name in values["files"]), int(values["rows"]), int(values["number"]))
    except (ValueError, TypeError, KeyError) as error:
        raise ModelError(f"{path} is damaged: {error}. Remove {folder}, and learn the query as another run.") from error


def counted(folder: Path, files: list[str]) -> int:
    import pyarrow.parquet as pq

    return sum(pq.read_metadata(folder / name).num_rows for name in files)


@contextlib.contextmanager
def alone(path: Path) -> Iterator[None]:
    """Wait until no other process is in such a block.

    Raises:
        ModelError: it takes an hour.
    """
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        try:
            lock = Lock(path, "staged")
            break
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise ModelError(
                    f"Another process has {path} since {WAIT_SECONDS:.0f} s. End it, or wait until it ends."
                ) from None
            time.sleep(LOOK_SECONDS)
    try:
        yield
    finally:
        lock.release()
