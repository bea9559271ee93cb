"""Start and end of a resident training: what it begins with, and what its statement returns."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from ....warehouse.files import VersionFiles
from ....warehouse.names import folder_name
from ....warehouse.scratch import scratch
from ...errors import DataError, StatementError
from ...input.streams.base import StreamQuery
from ...input.streams.feed import Feed
from ...input.streams.sources import opened
from ..commit import summary
from ..compiled import compilations, prepare_jax
from ..nothing_learned import unchanged
from ..plan import Plan
from ..preparation.base import Mode, Preparation
from ..preparation.stages import checked, prepared
from ..record import prepared_again
from ..segment import begin_of, cut_again, is_passed
from .announcer import Announcer
from .resident import Resident
from .rounds import Rounds

if TYPE_CHECKING:
    from ....warehouse.entries import Split
    from ....warehouse.locks import Lock
    from ....warehouse.models import Models
    from ....warehouse.version import Version
    from ...engines.base import Engine
    from ...input.streams.base import InputStream, Position
    from ...progress import Reporter

POLL_SECONDS = 0.1
STATUS = "nothing new"


class Place(NamedTuple):
    """Where a training stays: the model's lock, its announcer, and a folder for its records."""

    lock: Lock
    announcer: Announcer
    notes: Path


@contextmanager
def place(plan: Plan, stream: str, models: Models, reporter: Reporter) -> Iterator[Place]:
    """Give a resident training its place for the length of a block."""
    lock = models.lock(plan.model, plan.parent, plan.replace)
    try:
        announcer = Announcer(models.residence(plan.model), stream, reporter)
        with announcer.here(), scratch(models.warehouse, folder_name(plan.model)) as notes:
            yield Place(lock, announcer, notes)
    finally:
        lock.release()


def reside(plan: Plan, query: StreamQuery, engine: Engine, models: Models, reporter: Reporter) -> pa.Table:
    """Learn from a stream until the training is asked to stop.

    Returns:
        As train.train, of the last version that it made.

    Raises:
        StatementError: the statement cannot run.
        XpsqlError: what ended the training; the versions that it made stay.
    """
    prepare_jax()
    parent = models.version(plan.model, plan.parent) if plan.parent is not None else None
    stream = opened(query.relation, models.warehouse, plan.settings.forgives)
    before = begin_of(stream, parent, plan.settings.forgives)
    with place(plan, stream.name, models, reporter) as at:
        at.announcer.version = None if parent is None else parent.number
        feed = Feed(stream, before, at.announcer.note)
        if by_tasks(plan, engine):
            rounds = Rounds(plan, query, engine, models, at.lock, at.announcer, feed, parent)
            return shown(rounds.run, plan, parent, stream.name, at.announcer)
        if not stream.waits(before):
            check_earlier(plan, query, engine, parent, stream)
        first = first_rows(query, feed, parent, at.announcer)
        if first is None:
            return answer(parent, stream.name)
        scan = stream.scan(query.query, first.splits)
        given = Preparation(Mode.RESIDE, plan, engine, None, parent, scan, None, at.announcer.note)
        made = prepared(checked(given), VersionFiles(at.notes))
        resident = Resident(made, feed, models, at.lock, at.announcer, at.notes, 0)
        resident.begin(*first)
        return stayed(resident, plan, parent, stream.name, at.announcer)


def reside_again(plan: Plan, engine: Engine, models: Models, reporter: Reporter) -> pa.Table:
    """Resume a resident training that was interrupted; see reside.

    Raises:
        StatementError, DataError, ModelError: it cannot go on as it is; it stays interrupted.
    """
    prepare_jax()
    parent = models.version(plan.model, plan.parent) if plan.parent is not None else None
    assert plan.stream is not None
    stream = opened(plan.stream.relation, models.warehouse, plan.settings.forgives)
    if by_tasks(plan, engine):
        with place(plan, stream.name, models, reporter) as at:
            return rounds_again(plan, engine, models, stream, parent, at)
    with place(plan, stream.name, models, reporter) as at, models.resume(plan.model, at.lock) as draft:
        at.announcer.version = None if parent is None else parent.number
        try:
            made = prepared_again(plan, draft, engine, None, parent, at.announcer.note)
            assert made.segment is not None
        except BaseException:
            draft.discard()
            raise
        feed = Feed(stream, made.segment.position, at.announcer.note)
        resident = Resident(made, feed, models, at.lock, at.announcer, at.notes, draft.manifest.epoch)
        resident.go_on(draft, made.segment)
        return stayed(resident, plan, parent, stream.name, at.announcer)


def by_tasks(plan: Plan, engine: Engine) -> bool:
    """Return whether workers are tasks: where the engine has them, and there are several workers or shards."""
    return engine.tasks is not None and max(plan.settings.workers or 1, plan.settings.shards or 1) > 1


def rounds_again(
    plan: Plan, engine: Engine, models: Models, stream: InputStream, parent: Version | None, at: Place
) -> pa.Table:
    """Go on with the round that was interrupted, and with those after it."""
    assert plan.stream is not None
    folder = models.interrupted(plan.model).folder
    segment = cut_again(plan.stream, parent, folder, plan.settings.forgives)
    feed = Feed(stream, segment.position, at.announcer.note)
    rounds = Rounds(plan, plan.stream, engine, models, at.lock, at.announcer, feed, parent)

    def run() -> Version | None:
        rounds.resume(segment.splits)
        return rounds.run()

    return shown(run, plan, parent, stream.name, at.announcer)


def shown(run: Callable[[], Version | None], plan: Plan, parent: Version | None, stream: str, announcer: Announcer) -> pa.Table:
    """Run a training while its progress is shown, and return the result of its statement."""
    announcer.start(plan.model)
    try:
        last = run()
    finally:
        announcer.finish("")
    return answer(parent, stream) if last is None else summary(last.manifest)


def check_earlier(plan: Plan, query: StreamQuery, engine: Engine, parent: Version | None, stream: InputStream) -> None:
    """Refuse what cannot be learned before its first row arrives, by the columns of what has arrived before.

    Raises:
        StatementError: names the clause and what to do.
    """
    try:
        earlier = stream.news({})
        scan = stream.scan(query.query, earlier[-1:]) if earlier else None
    except DataError:  # of rows that it does not learn; its first rows will tell
        return
    if scan is not None:
        checked(Preparation(Mode.RESIDE, plan, engine, None, parent, scan, None, lambda text: None))


class FirstRows(NamedTuple):
    """The first splits that have rows, and the position before them."""

    splits: list[Split]
    before: Position


def first_rows(query: StreamQuery, feed: Feed, parent: Version | None, announcer: Announcer) -> FirstRows | None:
    """Wait until there are rows to learn; return None where the training is asked to stop before."""
    waits = False
    while not announcer.stopping:
        before = feed.position
        splits = feed.take(1)
        if splits and not is_passed(feed.stream, query, splits, parent, feed.position):
            return FirstRows(splits, before)
        if not splits and not waits:
            waits = True
            announcer.note(f"Waiting for rows in {feed.stream.name}.")
        announcer.tell(0)
        if not splits:
            time.sleep(POLL_SECONDS)
    return None


def stayed(resident: Resident, plan: Plan, parent: Version | None, stream: str, announcer: Announcer) -> pa.Table:
    """Run a training, and return the result of its statement."""
    with compilations(resident.first.monitor.compiled.add):
        return shown(resident.run, plan, parent, stream, announcer)


def answer(parent: Version | None, stream: str) -> pa.Table:
    """Return the result of a statement that made no version.

    Raises:
        StatementError: there is none before, either.
    """
    if parent is None:
        raise StatementError(f"Nothing to learn arrived in {stream} before the training was stopped. No version is made.")
    return unchanged(parent, STATUS)
