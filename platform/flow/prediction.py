"""ML.PREDICT: a query's rows with a version's predictions, as Parquet files."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ..engines.base import Engine, Scan, staged
from ..engines.tasks import Task, Tasks
from ..errors import StatementError
from ..ps.coordinator import CALL_SECONDS, Contact, EndedError, Membership
from ..ps.remote import RemoteClient
from ..ps.server import Server
from ..ps.service import pull_handler
from ..ps.watermarks import turns_of
from ..ps.wire import Acknowledged, Call, Handler
from .cluster import cluster
from .compiled import prepare_jax
from .dealing import Dealer
from .distributed import taken
from .job import TAKE, WAIT_SECONDS, Take, check_version, limit_threads, own_host, own_version
from .places import Places, places_of
from .plan import Settings
from .scoring import Request, Scored, Scorer
from .slots import columns_from, matched
from .splits import splits_of
from .weights import Weights

if TYPE_CHECKING:
    from ...warehouse.models import Version
    from ..progress import Reporter

VECTOR = pa.field("predicted_vector", pa.list_(pa.float32()))
SMALL_ROWS = 100_000
"""Up to so many rows, of the input and of the version, the driver scores alone: tasks take longer to start."""


def predict(
    version: Version, engine: Engine, query: str, columns: frozenset[str] | None, folder: Path, reporter: Reporter
) -> list[Path]:
    """Write a query's columns and predicted_<label>.

    Args:
        columns: the result columns that are needed, in lower case; None for all.
        folder: empty; the files go here. With an engine of tasks, all machines share it.

    Returns:
        The files, in the order of the input's rows.

    Raises:
        StatementError: the query cannot run, or lacks a column of the model, or has it as another kind.
    """
    scan = staged(engine, query, engine.scan(query), folder / "input")
    request = request_of(version, scan, [name for name in scan.schema.names if columns is None or name.lower() in columns])
    clash = {name.lower() for name in request.added} & {name.lower() for name in scan.schema.names}
    if clash:
        raise StatementError(f"The input already has the column {', '.join(sorted(clash))}; rename it with AS.")
    reporter.start(f"ML.PREDICT with {version.manifest.model} v{version.number}", None)
    try:
        if engine.tasks is None or is_small(request):
            return [score_here(request, folder / "predictions.parquet", reporter)]
        return score_on(engine.tasks, request, folder, reporter)
    finally:
        reporter.finish("")


def request_of(version: Version, scan: Scan, carried: Sequence[str]) -> Request:
    """Return what to score: the rows of a scan, some of whose columns are carried.

    Raises:
        StatementError: the scan lacks a column of the model, or has it as another kind.
    """
    wanted = columns_from(version.manifest)
    inputs = matched(wanted, scan.schema, wanted.inputs)
    predictions = [pa.field(f"predicted_{label}", pa.float64()) for label in wanted.labels] or [VECTOR]
    schema = pa.schema([*(scan.schema.field(name) for name in carried), *predictions])
    return Request(version, scan, splits_of(scan), inputs, tuple(carried), schema)


def scored(request: Request, tasks: Tasks | None, folder: Path, reporter: Reporter) -> Iterator[Scored]:
    """Score rows and iterate over them, in order; see predict."""
    if tasks is None or is_small(request):
        yield from Scorer(request.version, Weights(request.version, 0, 1).pull).score(request, request.splits)
        return
    for path in score_on(tasks, request, folder, reporter):
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches():
                table = pa.table(batch)
                predictions = [table.column(name).to_numpy().astype(np.float32) for name in request.added]
                yield Scored(table.select(list(request.carried)), np.stack(predictions, axis=1))


def is_small(request: Request) -> bool:
    """Tell whether tasks would take longer to start than to score."""
    return max(request.version.manifest.rows or 0, sum(split.rows for split in request.splits)) <= SMALL_ROWS


def score_here(request: Request, path: Path, reporter: Reporter) -> Path:
    """Score in this process."""
    scorer, examples = Scorer(request.version, Weights(request.version, 0, 1).pull), 0
    for rows in scorer.write(request, request.splits, path):
        examples += rows
        reporter.update(examples, {})
    return path


class Job(NamedTuple):
    """What the tasks of a prediction need to know; travels by pickle.

    Attributes:
        xpsql: the driver's version.
        folder: where files go, on all machines.
    """

    contact: Contact
    xpsql: str
    request: Request
    places: Places
    folder: Path


class Wrote(NamedTuple):
    """A worker has written so many more rows."""

    rows: int


WROTE = Call("wrote", Wrote, Acknowledged)


def score_on(tasks: Tasks, request: Request, folder: Path, reporter: Reporter) -> list[Path]:
    """Score on an engine's tasks: servers hold the version's rows, workers pull those that they need; a file for each split."""
    places = places_of(Settings(), tasks, True)
    places = places._replace(workers=max(1, min(places.workers, len(request.splits))))
    examples = 0

    def wrote(told: Wrote) -> Acknowledged:
        nonlocal examples
        examples += told.rows
        reporter.update(examples, {})
        return Acknowledged()

    name = f"predictions of {request.version.manifest.model} v{request.version.number}"
    dealer = Dealer(turns_of(len(request.splits), 1), places.workers, fixed=False)
    take = Handler(TAKE, lambda request: taken(dealer.next(request.worker)))
    handlers: list[Handler[Any, Any]] = [take, Handler(WROTE, wrote)]
    with cluster(tasks, name, places.shards, handlers, lambda role, number: None, None) as on:
        job = Job(on.contact, own_version(), request, places, folder)
        on.start_shards(functools.partial(host_weights, job), places.shards)
        on.run_workers(functools.partial(score_splits, job), places.workers, f"xpsql: {name}", False)
        on.end()
    return [part_path(folder, number) for number in range(len(request.splits))]


def part_path(folder: Path, split: int) -> Path:
    return folder / f"predictions-{split:06d}.parquet"


def host_weights(job: Job, task: Task) -> None:
    """Hold the rows of some slices of a version, as task `task.number` of several, until told to end."""
    check_version(job.xpsql)
    limit_threads(task.cores)
    name, secret = f"shard {task.number} of {job.contact.job}", job.contact.secret
    with Membership(job.contact, "shard", task.number, task.attempt) as member:
        weights = Weights(job.request.version, task.number, job.places.shards)
        with Server(name, [pull_handler(weights.pull)], secret, own_host(job.contact.address)) as server:
            member.ready(server.address)
            member.ended.wait()


def score_splits(job: Job, task: Task) -> None:
    """Take splits from the driver, one after the other, and write their predictions."""
    check_version(job.xpsql)
    limit_threads(task.cores)
    prepare_jax()
    with (
        Membership(job.contact, "worker", task.number, task.attempt) as member,
        RemoteClient(member.shards(WAIT_SECONDS), job.contact.secret) as client,
    ):
        scorer = Scorer(job.request.version, client.pull)
        while (taken := member.call(TAKE, Take(task.number, task.attempt), CALL_SECONDS).split) >= 0:
            for rows in scorer.write(job.request, [job.request.splits[taken]], part_path(job.folder, taken)):
                if member.ended.is_set():
                    raise EndedError
                member.call(WROTE, Wrote(rows), CALL_SECONDS)
