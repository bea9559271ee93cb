"""The degree of parallelism: how many shards and workers a training or prediction has, and whether there are slots for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from .. import parts
from ..cores import cores
from ..display import plural
from ..engines.tasks import Room, Tasks
from ..errors import StatementError, Subject
from .clauses.settings import Settings
from .clauses.validate import VALIDATE
from .plan import Plan

if TYPE_CHECKING:
    from ...algorithms.base import Algorithm

SLOTS_PER_SHARD = 4
MOST_BY_DEFAULT = 64
ROWS_PER_TASK = 200_000
ROWS_PER_LEARNER_OF_VECTORS = 2_000_000
"""So many rows are worth another worker of an algorithm that takes no large batches: what workers know too late of each other's
updates costs vectors and layers accuracy (docs/scaling.md, Large batches)."""
ROWS_PER_SHARD = 1_000_000
BYTES_PER_SHARD = 64 * 2**20
WHOLE_ROWS = 1 << 16
"""Examples of a batch where all examples are learned from at once."""
MOST_USUAL = 1024
DEFAULT_BATCH_SIZES = (
    (4_000_000, 16384),
    (2_000_000, 8192),
    (1_000_000, 4096),
    (500_000, 2048),
    (200_000, 1024),
    (50_000, 256),
    (0, 64),
)
"""Default batch sizes: from so many rows on, so many examples per update."""
WHOLE_BATCH_WORKERS = 4
"""Up to so many workers take whole batches; with more, too much of the log would be under way at once."""

MOST_PULLS_AHEAD = 1
"""Pulls that a worker has under way while it computes; more hide no more of a shard's latency (docs/scaling.md, Pulling
ahead)."""
LEAST_ROWS_AHEAD = 61
"""Pulls go ahead where the log has so many rows for each one under way: below that accuracy is lost."""
MOST_PASSES = 10
"""Times that a short log is read, at most, where the statement does not say."""


class Places(NamedTuple):
    """Shards and workers of a training; it has no shards where the driver keeps what is learned."""

    shards: int
    workers: int


class Sizes(NamedTuple):
    """What is decided of a training once its rows are known: examples of a batch, passes, shards and workers."""

    batch_size: int
    passes: int
    places: Places


def in_step(settings: Settings, places: Places) -> bool:
    """Return whether shards apply steps as wholes, so that all of them can stop after the same step.

    With bsp and hybrid they do; and for one worker, whose results depend on no timing: of several shards, which get a push one
    after the other, some would have it in a checkpoint, or when the worker is lost, and others not.
    """
    return settings.together or (places.workers == 1 and places.shards > 1)


def pulls_ahead(settings: Settings, places: Places, batch_size: int, rows: int) -> int:
    """Return how many batches a worker pulls before it has pushed the one that it computes on, with hybrid their rows alone; 0
    where results depend on no timing, where a step waits for the one before, and where too much of the log would be under way
    at once."""
    if settings.sync not in ("asp", "hybrid") or places.workers == 1:
        return 0
    under_way = places.workers * batch_size * LEAST_ROWS_AHEAD
    return max(0, min(MOST_PULLS_AHEAD, rows // under_way - 1))


def places_of(settings: Settings, tasks: Room | None, serves: bool) -> Places:
    """Return how many shards and workers a training has.

    Args:
        tasks: where they run; None: in this process, by default with one shard and one worker, whose batches all cores work on,
            and without shards with a worker for each core: results depend on no core in any case.
        serves: it needs shards.

    Raises:
        StatementError: an engine has too few slots for them; says how many there are and what to do.
    """
    least = (settings.shards or 1) if serves else 0
    if tasks is None:
        return Places(least, settings.workers or (1 if serves else cores()))
    slots = tasks.slots(least + (settings.workers or 1), settings.together)
    default = min(slots, MOST_BY_DEFAULT)
    shards = settings.shards or max(1, min(default // SLOTS_PER_SHARD, default - (settings.workers or 1)))
    shards = shards if serves else 0
    workers = settings.workers or max(1, default - shards)
    if shards + workers > slots:
        lower = " Lower workers or shards in WITH." if settings.shards or settings.workers else ""
        raise StatementError(
            f"The statement needs {shards + workers} tasks at once, {shards} {plural('shard', shards)} and {workers} "
            f"{plural('worker', workers)}; {tasks.words.engine} has room for {slots}.{lower} {tasks.words.more_cores}.",
            subject=Subject("WITH", option="workers" if settings.workers else "shards"),
        )
    return Places(shards, workers)


def check_room(plan: Plan, room: Room) -> None:
    """Refuse a training that an engine will have no room for, before the engine starts; as places_of does.

    Raises:
        StatementError: see places_of.
    """
    places_of(plan.settings, room, parts.ALGORITHM.find(plan.algorithm.name, None).takes.shards)


def decide(plan: Plan, algorithm: Algorithm, rows: Sequence[int], places: Places, offers: bool, tasks: Tasks | None) -> Sizes:
    """Return the sizes that a training runs with; TRAIN, CONTINUE, EXPLAIN and all kinds of algorithms use it.

    Args:
        rows: of each split, those that are learned.
        places: at most, from places_of.
        offers: operators offer something of features, counted batch by batch in the order of all examples.
        tasks: where they run; None: in this process.
    """
    passes = passes_of(plan, algorithm, sum(rows))
    at_once = 1 if plan.clause(VALIDATE) is not None or offers else passes  # those are dealt one at a time
    each = ROWS_PER_LEARNER_OF_VECTORS if algorithm.serves and not algorithm.sizing.large_batches else ROWS_PER_TASK
    places = fitting(places, plan.settings, sum(rows), len(rows) * at_once, each)
    if not algorithm.serves and offers:
        alone = batch_size(plan.settings, sum(rows), 1, large=True, least=1)
        return Sizes(alone, passes, Places(0, plan.settings.workers or 1))
    if not algorithm.serves:
        return Sizes(WHOLE_ROWS, passes, places)
    size = batch_size(plan.settings, sum(rows), places.workers, algorithm.sizing.large_batches, algorithm.sizing.least_batch)
    return Sizes(size, passes, places)


def passes_of(plan: Plan, algorithm: Algorithm, rows: int) -> int:
    """Return how often a training reads its rows: where the statement does not say, a new model a short log as often as it
    takes to learn from the examples that the algorithm wants. What continues has begun, and a stream is read once."""
    if plan.settings.passes is not None:
        return plan.settings.passes
    if plan.parent is not None or plan.stream is not None:
        return 1
    return max(1, min(MOST_PASSES, -(-algorithm.sizing.least_examples // max(rows, 1))))


def batch_size(settings: Settings, rows: int, workers: int, large: bool, least: int) -> int:
    """Return the examples per update of a training on `rows` rows: a short log needs its many small updates.

    Args:
        workers: that learn at once, each from weights that lack the others' updates under way (docs/scaling.md, Large batches).
        large: the algorithm takes larger batches of a long log.
        least: it takes no smaller ones.
    """
    usual = DEFAULT_BATCH_SIZES if large else [pair for pair in DEFAULT_BATCH_SIZES if pair[1] <= MOST_USUAL]
    shared = rows * WHOLE_BATCH_WORKERS // max(WHOLE_BATCH_WORKERS, workers)
    return settings.batch_size or max(least, next(size for from_rows, size in usual if shared >= from_rows))


def fitting(places: Places, settings: Settings, rows: int, turns: int, each: int) -> Places:
    """Return fewer shards and workers for a small input, where the statement does not set them: each would wait for the others.

    Args:
        rows: of the input, those that are learned.
        turns: splits in all passes; a worker without one has nothing to do.
        each: rows that a worker is worth.
    """
    shards = min(places.shards, settings.shards or 1 + rows // ROWS_PER_SHARD)
    return Places(shards, settings.workers or min(places.workers, turns, 1 + rows // each))


def scoring_places(tasks: Tasks, weight_bytes: int, turns: int) -> Places:
    """Return how many shards and workers a prediction uses.

    Args:
        weight_bytes: what the shards hold together.
        turns: splits of the input.

    Raises:
        StatementError: see places_of.
    """
    places = places_of(Settings(), tasks, True)
    return Places(min(places.shards, 1 + weight_bytes // BYTES_PER_SHARD), max(1, min(places.workers, turns)))
