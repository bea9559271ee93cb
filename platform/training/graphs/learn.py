"""Rounds of a vertex program: the driver has the values of all vertices, in order of their keys, and workers their edges."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ....algorithms.augments.pairs import HALF
from ....algorithms.graphs.limbs import TABLE, as_row, of_row
from ....algorithms.vertex_program import FIXED, ONE, PAIR_ONE, GraphRound, PairProgram, Values, VertexProgram, Vertices
from ...blame import blaming
from ...cores import cores
from ...display import plural
from ...engines.tasks import Tasks
from ...errors import LostError, TrainingError
from ...ps.messages import Description, Keys
from ...ps.moments import no_moments
from ...ps.transport.over_sockets import SOCKETS
from ..checkpoints.recovery import Recoveries, begun_again
from ..compiled import share_work
from ..metrics.metrics import LabelMetrics
from ..metrics.passes import PassTally
from ..monitor import Monitor
from ..prepared import Prepared
from ..row_files.saved import SavedShards
from ..solved.solve import found_in, stored_rows, write
from .kept import KeptRounds, RoundDone
from .part import PartOfGraph, part_of, program_of

if TYPE_CHECKING:
    from ....warehouse.draft import Draft

Messages = NDArray[np.int64] | NDArray[np.float64]
Rows = dict[str, NDArray[Any]]
SCALES = 1.0, 2.0**-31, 2.0**-62
"""Of the parts of a sum of weights, see sum_weights."""


class WorkersOfGraph(NamedTuple):
    """The workers of a training, wherever they are.

    Attributes:
        parts: what each has.
        along: (the messages of each one's vertices, round) -> the inboxes of these.
    """

    parts: Sequence[PartOfGraph]
    along: Callable[[Sequence[Messages], GraphRound], Sequence[Values]]


def learn_here(prepared: Prepared, draft: Draft, monitor: Monitor) -> SavedShards:
    """Run a program in this process.

    Raises:
        DataError: see part_of.
        TrainingError: there are no edges, or what the program computes is not what its contract says.
    """
    share_work(cores())
    count = prepared.plan.settings.workers or 1
    parts = [part_of(prepared, number, count) for number in range(count)]

    def along(messages: Sequence[Messages], at: GraphRound) -> list[Values]:
        return [part.along(own, at) for part, own in zip(parts, messages, strict=True)]

    return computed(WorkersOfGraph([part.found for part in parts], along), prepared, draft, monitor)


def learn_on(tasks: Tasks, prepared: Prepared, draft: Draft, monitor: Monitor) -> SavedShards:
    """Run a program on an engine's tasks; when one is lost, it begins again.

    Raises:
        XpsqlError: of the first task that failed; see learn_here.
    """
    return begun_again(functools.partial(learn_once, tasks, prepared, draft, monitor), monitor)


def learn_once(tasks: Tasks, prepared: Prepared, draft: Draft, monitor: Monitor, recoveries: Recoveries) -> SavedShards:
    """Run a program from the beginning.

    Raises:
        LostError: a task is lost.
        XpsqlError: see learn_on.
    """
    from ..tasks.cluster import cluster  # the transport takes a tenth of a second to load
    from ..tasks.job import job_of
    from .rounds import GraphRendezvous, keep_edges

    count, meeting = prepared.places.workers, GraphRendezvous(prepared.places.workers)
    name, encrypt = f"{prepared.plan.model} v{draft.number}", prepared.plan.settings.encrypt
    handlers = meeting.collective.handlers
    with cluster(tasks, name, prepared.places, handlers, lambda role, number: None, None, encrypt, SOCKETS) as on:
        job = job_of(prepared, draft, on.contact, draft.manifest.epoch, "", None)
        with on.working(functools.partial(keep_edges, job), count, f"xpsql: train {name}") as over:
            parts = meeting.collective.gather(over)
            recoveries.over()
            workers = WorkersOfGraph(parts, lambda messages, at: meeting.along(messages, at, over))
            held = computed(workers, prepared, draft, monitor)
            with contextlib.suppress(LostError):  # the workers are no longer needed
                meeting.collective.end(over)
    return held


class WholeGraph(NamedTuple):
    """All vertices, and for each worker where its own are among them."""

    vertices: Vertices
    places: Sequence[NDArray[np.intp]]


class Told(NamedTuple):
    """Listeners to rounds: `change` gets the number of each, from 1, and how much it has changed; `done` what a further one
    begins with."""

    change: Callable[[int, float], None]
    done: Callable[[RoundDone], None]


def whole_of(parts: Sequence[PartOfGraph], weighted: bool) -> WholeGraph:
    """Return the vertices of all workers."""
    keys: Keys = np.unique(np.concatenate([part.keys for part in parts]))
    places = [np.searchsorted(keys, part.keys) for part in parts]
    out, degree = np.zeros((len(keys), parts[0].out.shape[1]), np.int64), np.zeros(len(keys), np.int64)
    for part, place in zip(parts, places, strict=True):
        out[place] += part.out
        degree[place] += part.degree
    summed = sum(limb * scale for limb, scale in zip(out.T, SCALES, strict=False))
    return WholeGraph(Vertices(keys, np.asarray(summed, np.float64), degree, weighted), places)


def computed(workers: WorkersOfGraph, prepared: Prepared, draft: Draft, monitor: Monitor) -> SavedShards:
    """Run all rounds of a program, and write the values of vertices."""
    program, parts = program_of(prepared), workers.parts
    edges, dropped = sum(part.edges for part in parts), sum(part.dropped for part in parts)
    if dropped:
        monitor.note(f"{dropped:,} {plural('edge', dropped)} with a NULL end {'is' if dropped == 1 else 'are'} left out.")
    if not edges:
        ends = " and ".join(prepared.columns.ends or ())
        raise TrainingError(f"No row is an edge: {ends} are never both there. Check how the query computes them.")
    if isinstance(program, PairProgram):
        with blaming("algorithm", prepared.plan.algorithm.name):
            pairs = pairs_of(workers, prepared.plan.settings.seed)
        return written(pairs, draft, prepared, monitor, edges)
    vertices, places = whole_of(parts, prepared.columns.weight is not None)
    with blaming("algorithm", prepared.plan.algorithm.name):
        settings = prepared.plan.settings
        kept = KeptRounds(draft, settings.checkpoint_seconds, edges, vertices.keys, monitor.note)
        begins = kept.last() or RoundDone(0, beginning(program, vertices, lambda: rows_before(prepared)))
        told = Told(monitor.iterated, kept.after)
        rounds, values = rounds_of(program, workers, WholeGraph(vertices, places), begins, settings.seed, told)
    ones, zeros = np.ones(len(values), np.int64), np.zeros(len(values), np.int64)
    rows: Rows = {"key": vertices.keys, "slot": zeros, "count": vertices.degree, "updates": rounds * ones}
    rows |= {"shows": vertices.degree, "clicks": zeros, "last_seen": zeros, "w": as_row(values)}
    return written(rows, draft, prepared, monitor, edges)


def pairs_of(workers: WorkersOfGraph, seed: int) -> Rows:
    """Return the rows of a program's pairs: a key has the halves of both vertices' keys, as those of `slrm`."""
    messages = [part.keys.view(np.int64) for part in workers.parts]
    found = [np.split(flat, 3) for flat in workers.along(messages, GraphRound(-1, seed))]
    item, other, score = (np.concatenate([one[at] for one in found]) for at in range(3))
    halves = item.view(np.uint64) >> np.uint64(HALF), other.view(np.uint64) >> np.uint64(HALF)
    keys, first = np.unique((halves[1] << np.uint64(HALF)) | halves[0], return_index=True)
    ones, zeros = np.ones(len(keys), np.int64), np.zeros(len(keys), np.int64)
    counts = {"slot": zeros, "count": ones, "updates": ones, "shows": ones, "clicks": zeros, "last_seen": zeros}
    return {"key": keys, **counts, "w": (score[first] / PAIR_ONE).astype(np.float32)[:, None]}


def written(rows: Rows, draft: Draft, prepared: Prepared, monitor: Monitor, edges: int) -> SavedShards:
    """Write the rows of a version, and count what was read."""
    count_edges(prepared, monitor, edges)
    saved = write(draft, rows)
    return SavedShards(saved, Description(saved.rows, 0, 0, {}, no_moments(0), saved.min_weight, saved.max_weight))


def rounds_of(
    program: VertexProgram,
    workers: WorkersOfGraph,
    graph: WholeGraph,
    begins: RoundDone,
    seed: int,
    told: Told,
) -> RoundDone:
    """Return the values of vertices after the last round, and how many there were.

    Args:
        begins: the values before the first of these rounds, and how many were before.
    """
    vertices, places = graph
    number, values = begins.rounds - 1, begins.values
    for number in range(begins.rounds, program.rounds):
        messages = np.asarray(program.message(values, vertices))
        inbox = np.full(len(values), program.combine.nothing, np.int64)
        inboxes = workers.along([messages[place] for place in places], GraphRound(number, seed))
        for place, own in zip(places, inboxes, strict=True):
            inbox[place] = program.combine.merge(inbox[place], own)
        after = as_values("update", program.update(values, inbox, vertices), len(values))
        told.change(number + 1, change(program, values, after))
        over = (program.settles and len(places) == 1) or program.halt(values, after)
        values = after
        if over:
            break
        told.done(RoundDone(number + 1, values))
    return RoundDone(number + 1, values)


def beginning(program: VertexProgram, vertices: Vertices, before: Callable[[], tuple[Keys, Values] | None]) -> Values:
    """Return the values that vertices begin with: where the program continues them, those of the continued version.

    Args:
        before: returns its keys and values; None where nothing is continued.
    """
    initial = as_values("initial", program.initial(vertices), len(vertices.keys))
    rows = None if program.continues is None else before()
    if rows is None or program.continues is None:
        return initial
    known, place = found_in(rows[0], vertices.keys)
    values = np.zeros(len(initial), np.int64)
    if known.any():
        values[known] = rows[1][place[known]]
    return as_values("continues", program.continues(values, known, initial), len(initial))


def rows_before(prepared: Prepared) -> tuple[Keys, Values] | None:
    """Return the keys and values of the vertices of the version that a training continues."""
    if prepared.parent is None:
        return None
    rows = stored_rows(prepared, TABLE)
    return rows["key"], of_row(rows["w"])[0] if len(rows["key"]) else np.empty(0, np.int64)


def change(program: VertexProgram, before: Values, after: Values) -> float:
    """Return how much a round has changed: of numbers between 0 and 1 the sum, of others how many values."""
    return float(np.abs(after - before).sum()) / ONE if program.kind == FIXED else float(np.count_nonzero(after != before))


def as_values(what: str, values: object, count: int) -> Values:
    """Return what a program has computed, if it is a number for each vertex.

    Raises:
        TypeError: it is something else.
    """
    if not isinstance(values, np.ndarray) or values.dtype != np.int64 or values.shape != (count,):
        raise TypeError(f"{what} of a vertex program must return int64[{count}], got {described(values)}")
    return values


def described(values: object) -> str:
    return f"{values.dtype}{list(values.shape)}" if isinstance(values, np.ndarray) else type(values).__name__


def count_edges(prepared: Prepared, monitor: Monitor, edges: int) -> None:
    """Count edges as the examples that were learned."""
    tallies = LabelMetrics(prepared.targets.ungrouped).tallies()
    monitor.passes.take([PassTally(0, tuple(tally._replace(examples=edges) for tally in tallies))])
