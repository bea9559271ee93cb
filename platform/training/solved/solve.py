"""A training that learns all examples at once: they are read into memory, and a solver (such as L-BFGS) asks for losses and
gradients."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ....algorithms.solver import SolverInput
from ....warehouse.rows import rows_schema
from ...engines.tasks import Tasks
from ...errors import LostError
from ...input.scaling import moments_in
from ...operators.base import Whole
from ...ps.messages import Description, Keys, Pulled
from ...ps.moments import Moments, merged
from ...ps.transport.over_sockets import SOCKETS
from ...reserved import INTERCEPT_NUMBER
from ..checkpoints.recovery import Recoveries, begun_again
from ..metrics.metrics import LabelMetrics, Tally
from ..metrics.passes import PassTally
from ..metrics.validations import Validated
from ..monitor import Monitor
from ..prepared import Prepared
from ..recipe import Recipe
from ..row_files.columns import as_arrow as floats_as_arrow
from ..row_files.columns import values
from ..row_files.rows import carried_rows
from ..row_files.saved import SavedRows, SavedShards
from ..validation import Pull, Validator
from .examples import Doubles, Evaluated, KeptExamples, KeyedFeatures
from .rates import OfferedColumns

if TYPE_CHECKING:
    from ....warehouse.draft import Draft

PIECE_ROWS = 1 << 16
STATISTICS = ("slot", "count", "updates", "shows", "clicks", "last_seen")
MOST = 2**32 - 1

Columns = dict[str, NDArray[Any]]


class Data(NamedTuple):
    """All examples of a training, wherever they are.

    Attributes:
        features: of all of them.
        moments: of the standardised slots, of all examples.
        kept: what operators keep of features.
        begin: standardise by statistics; before the first evaluation.
        evaluate: weights of the features, float64[n, dim] -> sum of losses and gradient.
        measure: the same -> the metrics of the examples, part by part, of each label.
    """

    features: KeyedFeatures
    moments: Moments
    kept: OfferedColumns
    begin: Callable[[Moments], None]
    evaluate: Callable[[Doubles], Evaluated]
    measure: Callable[[Doubles], Iterable[tuple[Tally, ...]]]


def solve_here(prepared: Prepared, draft: Draft, monitor: Monitor) -> SavedShards:
    """Learn all examples in this process.

    Raises:
        DataError: see Examples.
    """
    examples = KeptExamples(prepared, range(len(prepared.splits)), prepared.places.workers)
    data = Data(
        examples.features,
        examples.moments,
        examples.kept,
        examples.scale,
        examples.evaluate,
        lambda weights: [examples.measure(weights)],
    )
    return solved(data, prepared, draft, monitor)


def solve_on(tasks: Tasks, prepared: Prepared, draft: Draft, monitor: Monitor) -> SavedShards:
    """Learn all examples on an engine's tasks: each keeps some in memory, the driver sums their losses and gradients.

    When one is lost, the same search begins again.

    Raises:
        XpsqlError: of the first task that failed.
    """
    return begun_again(functools.partial(solve_once, tasks, prepared, draft, monitor), monitor)


def solve_once(tasks: Tasks, prepared: Prepared, draft: Draft, monitor: Monitor, recoveries: Recoveries) -> SavedShards:
    """Learn all examples from the beginning.

    Raises:
        LostError: a task is lost.
        XpsqlError: see solve_on.
    """
    from ..tasks.cluster import cluster  # the transport takes a tenth of a second to load
    from ..tasks.job import job_of
    from .solver_rounds import SolverRendezvous, evaluate_examples

    count = prepared.places.workers
    meeting = SolverRendezvous(count)
    handlers = meeting.collective.handlers
    name, encrypt = f"{prepared.plan.model} v{draft.number}", prepared.plan.settings.encrypt
    with cluster(tasks, name, prepared.places, handlers, lambda role, number: None, None, encrypt, SOCKETS) as on:
        job = job_of(prepared, draft, on.contact, draft.manifest.epoch, "", None)
        with on.working(functools.partial(evaluate_examples, job), count, f"xpsql: train {name}") as over:
            features, moments, kept = meeting.examples(over)
            recoveries.over()
            data = Data(
                features,
                moments,
                kept,
                lambda moments: meeting.begin(moments, over),
                lambda weights: meeting.evaluate(weights, over),
                lambda weights: meeting.measure(weights, over),
            )
            held = solved(data, prepared, draft, monitor)
            with contextlib.suppress(LostError):  # the workers are no longer needed
                meeting.collective.end(over)
    return held


def solved(data: Data, prepared: Prepared, draft: Draft, monitor: Monitor) -> SavedShards:
    """Let the algorithm find the weights, measure them on the examples, and write them together with the weights of features
    that the data lack."""
    algorithm, columns = prepared.recipe.algorithm, prepared.columns
    solve = algorithm.learns.solve
    assert solve is not None
    (table,) = algorithm.tables
    before = stored_rows(prepared, table.name)
    moments = data.moments
    if prepared.parent is not None:
        moments = merged(moments_in(prepared.parent.manifest, columns), moments)
    data.begin(moments)
    shape = (len(data.features.keys), table.dim)

    def objective(flat: Doubles) -> tuple[float, Doubles]:
        found = data.evaluate(flat.reshape(shape))
        return found.loss, found.gradient.reshape(-1)

    counts, intercept = data.features.counts.astype(np.float64), data.features.slots == INTERCEPT_NUMBER
    start = started(data.features, before, table.dim).reshape(-1)
    examples = prepared.counts.total
    every, (penalty, most) = np.repeat(counts, table.dim), whole_of(prepared.recipe)
    l1, l2 = penalty(every) if penalty else (0.0, 0.0)
    validator = None if prepared.hold_out is None else Validator(prepared, prepared.hold_out)
    weights = start.reshape(shape)
    for number, own in enumerate(tried := penalties(prepared)):
        known = SolverInput(start, every, np.repeat(intercept, table.dim), l1, l2 + own - algorithm.learns.l2, most)
        found = solve(objective, known, monitor.iterated).reshape(shape)
        start = found.reshape(-1)
        if validator is not None:
            pull = puller(table.name, rows_of(data.features, found, before), moments)
            tallies = validator.measure(lambda: LabelMetrics(prepared.targets.final), [pull])
            monitor.validated(Validated(number, examples, tallies, validator.gain))
        if validator is None or monitor.validations.gained:
            weights = found
            if validator is not None and prepared.trial.judging is not None:
                validator.write(prepared.trial.judging)
    if prepared.chooses and (kept := monitor.validations.kept) is not None:
        shown = ", ".join(f"{own:g}" for own in tried)
        monitor.note(f"l2 = {tried[kept.pass_number]:g} is the best of {shown} on the rows held out.")
    for tallies in data.measure(weights):
        monitor.passes.take([PassTally(0, tallies)])
    saved = write(draft, data.kept.beside(rows_of(data.features, weights, before)))
    now = int(data.features.last_seen.max(initial=0))
    return SavedShards(saved, Description(saved.rows, 0, now, {}, moments, saved.min_weight, saved.max_weight))


def penalties(prepared: Prepared) -> Sequence[float]:
    """Return the L2 penalties of one search after the other, each from where the one before ended."""
    learns = prepared.recipe.algorithm.learns
    if prepared.choice is not None:
        return learns.path[prepared.choice : prepared.choice + 1]
    return learns.path if prepared.chooses else (learns.l2,)


def puller(table: str, rows: Columns, moments: Moments) -> Pull:
    """Return how the rows of a solution are pulled."""

    def pull(keys: Keys, size: int) -> Pulled:
        found = np.zeros((size, rows["w"].shape[1]), np.float32)
        known, place = found_in(rows["key"], keys)
        found[: len(keys)][known] = rows["w"][place[known]]
        return Pulled({table: found}, {}, {}, moments, {})

    return pull


def whole_of(recipe: Recipe) -> Whole:
    """Return the effect of a statement's operators here."""
    (programs,) = recipe.programs
    assert isinstance(programs.chain.whole, Whole)  # that of a chain
    return programs.chain.whole


def stored_rows(prepared: Prepared, table: str) -> Columns:
    """Return the rows that a training continues, by column, ascending by key; `key` alone where there are none."""
    wanted = ["key", *STATISTICS, "w"]
    batches = [] if prepared.parent is None else list(carried_rows(prepared.parent, table, prepared.columns, wanted))
    if not batches:
        return {"key": np.empty(0, np.uint64)}
    read: Columns = {name: np.concatenate([values(batch[name]) for batch in batches]) for name in batches[0].schema.names}
    order = np.argsort(keys := read["key"].view(np.uint64))
    dim = len(read["w"]) // max(len(keys), 1)
    return {**{name: read[name][order] for name in STATISTICS}, "key": keys[order], "w": read["w"].reshape(-1, dim)[order]}


def started(features: KeyedFeatures, before: Columns, dim: int) -> Doubles:
    """Return the initial weights: the continued version's, 0 for new features."""
    start = np.zeros((len(features.keys), dim))
    known, place = found_in(before["key"], features.keys)
    if known.any():
        start[known] = before["w"][place[known]]
    return start


def found_in(keys: NDArray[np.uint64], wanted: NDArray[np.uint64]) -> tuple[NDArray[np.bool_], NDArray[np.intp]]:
    """Return which wanted keys are among ascending ones, and where."""
    if not len(keys):
        return np.zeros(len(wanted), np.bool_), np.zeros(len(wanted), np.intp)
    place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return keys[place] == wanted, place


def rows_of(features: KeyedFeatures, weights: Doubles, before: Columns) -> Columns:
    """Return the rows of a version, ascending by key: features of the data, and features of the previous version that the data
    lacks."""
    known, place = found_in(before["key"], features.keys)
    own: Columns = {
        "key": features.keys,
        "slot": features.slots,
        "count": features.counts,
        "updates": np.ones(len(features.keys), np.int64),
        "shows": features.counts,
        "clicks": features.clicks,
        "last_seen": features.last_seen,
        "w": weights.astype(np.float32),
    }
    if not len(before["key"]):
        return own
    for name in ("count", "updates", "shows", "clicks"):
        own[name] = own[name] + np.where(known, before[name][place], 0)
    left = ~found_in(features.keys, before["key"])[0]
    whole = {name: np.concatenate([column, before[name][left]]) for name, column in own.items()}
    order = np.argsort(whole["key"])
    return {name: column[order] for name, column in whole.items()}


def write(draft: Draft, rows: Mapping[str, NDArray[Any]]) -> SavedRows:
    """Write rows to a version's files."""
    (entry,) = draft.manifest.tables
    schema, weights = rows_schema(entry), rows["w"]
    with draft.writer(entry) as writer:
        for start in range(0, len(weights), PIECE_ROWS):
            piece = {name: column[start : start + PIECE_ROWS] for name, column in rows.items()}
            writer.write(pa.RecordBatch.from_arrays([as_arrow(piece[field.name], field) for field in schema], schema=schema))
    return SavedRows(len(weights), float(weights.min(initial=0)), float(weights.max(initial=0)))


def as_arrow(column: NDArray[Any], field: pa.Field) -> pa.Array:
    """Return a column of rows in the schema's type; statistics saturate."""
    if field.name == "key":
        return pa.array(column.view(np.int64))
    if column.dtype == np.float32:
        return floats_as_arrow(column, field.type)
    return pa.array(np.minimum(column.astype(np.int64), MOST), field.type)
