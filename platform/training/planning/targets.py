"""WITH (target = '2 hours'): the workers, shards and batch size that a training takes to be in time, as EXPLAIN shows."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ...cores import cores
from ...display import plural
from ...engines.tasks import Tasks
from ...errors import StatementError
from ...input.splits import CHUNK_ROWS
from ..clauses.settings import TARGET
from ..estimates import FEATURE_ROWS, Cost, used
from ..parallelism import ROWS_PER_LEARNER_OF_VECTORS
from ..plan import Plan
from ..prepared import Prepared
from ..strategies import strategy_of
from .forecast import CLUSTER, HERE, Load, TrainingWay, Where, accurate, best, choices, fastest

POWER = 0.7
"""Distinct keys grow like this power of a batch, where the beginning of the input is too short to tell."""
LEAST_WORK = 0.2
"""A worker's own part of a sample's seconds, at least: the rest of them is the shard's."""
MOST_BATCH = 65_536
STEPS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096)
"""Numbers of workers and shards that are tried."""


class Planned(NamedTuple):
    """What is planned for a target.

    Attributes:
        chosen: the way that a training takes.
        others: the best way of each number of workers, the fewest first.
    """

    chosen: TrainingWay
    others: Sequence[TrainingWay]


def planned(prepared: Prepared, tasks: Tasks | None, cost: Cost) -> Planned:
    """Return what is planned for a training's target.

    Args:
        cost: of a pass, by the beginning of the input.

    Raises:
        StatementError: no way that there is room for is in time; has the nearest, and what would be.
    """
    seconds = prepared.plan.settings.target_seconds
    assert seconds is not None  # whoever plans has a target
    load, where = load_of(prepared, cost), where_of(tasks, cost)
    found = ways(prepared, load, where, tasks, slots_of(prepared.plan, tasks))
    chosen = best(found, seconds)
    if chosen is None:
        raise StatementError(late(prepared, load, where, tasks, fastest(found)), subject=TARGET)
    return Planned(chosen, [best_of(found, workers, seconds) for workers in sorted({one.places.workers for one in found})])


def in_time(prepared: Prepared, tasks: Tasks | None, note: Callable[[str], None]) -> Prepared:
    """Return a training with the places and the batch size that its target asks for, and tell them; as it is without one.

    Raises:
        StatementError: see planned.
    """
    if prepared.plan.settings.target is None:
        return prepared
    made = planned(prepared, tasks, cost_of(prepared))
    note(note_of(prepared, made))
    return targeted(prepared, made)


def cost_of(prepared: Prepared) -> Cost:
    """Return what a pass costs, by a sample of the input."""
    sample = dataclasses.replace(prepared, parent=None, baseline=(), hold_out=None)
    return strategy_of(prepared.recipe.algorithm).cost(sample)


def best_of(found: Sequence[TrainingWay], workers: int, seconds: float) -> TrainingWay:
    """Return the best way of a number of workers that is in time, else the fastest."""
    own = [one for one in found if one.places.workers == workers]
    return best(own, seconds) or min(own, key=lambda one: one.seconds)


def targeted(prepared: Prepared, planned: Planned) -> Prepared:
    """Return a training with the places and the batch size that are planned for it."""
    return dataclasses.replace(prepared, places=planned.chosen.places, batch_size=planned.chosen.batch)


def where_of(tasks: Tasks | None, cost: Cost) -> Where:
    """Return what is known of the machines; what a training takes beside its passes is part of its start."""
    where = HERE if tasks is None else CLUSTER
    granted = None if tasks is None else tasks.memory_bytes()
    memory = where.memory if granted is None else float(granted)
    return where._replace(start=where.start + cost.once, memory=memory)


def slots_of(plan: Plan, tasks: Tasks | None) -> int:
    """Return how many tasks there is room for; in this process how many workers."""
    settings = plan.settings
    return cores() if tasks is None else tasks.slots((settings.shards or 1) + (settings.workers or 1), settings.together)


def ways(prepared: Prepared, load: Load, where: Where, tasks: Tasks | None, slots: float) -> list[TrainingWay]:
    """Return the ways to run a training on so many slots: what the statement gives is taken, the rest is tried."""
    settings, algorithm, rows = prepared.plan.settings, prepared.recipe.algorithm, prepared.counts.total
    most = len(prepared.splits) * prepared.passes
    if not algorithm.sizing.large_batches:  # whose workers make the same update again
        most = min(most, 1 + rows // ROWS_PER_LEARNER_OF_VECTORS)
    workers = [settings.workers] if settings.workers else [n for n in STEPS if n <= most]
    shards = [settings.shards or 1] if tasks is None or settings.shards else [n for n in STEPS if n <= 1024]
    batches = {prepared.batch_size}
    if algorithm.sizing.large_batches and not settings.batch_size:
        batches = {min(MOST_BATCH, prepared.batch_size * times) for times in (1, 2, 4)}
    found = choices(load, workers, shards, sorted(batches), where, settings.together)
    room = [one for one in found if one.cores <= slots]
    return [one for one in room if accurate(one) or (settings.workers and len(batches) == 1)]


def load_of(prepared: Prepared, cost: Cost) -> Load:
    """Return a training's work, judged by the beginning of its input."""
    rows = max(prepared.counts.total, 1)
    keys, power = keys_of(prepared)
    dim = sum(programs.spec.dim for programs in prepared.recipe.programs)
    row = cost.seconds / rows
    shared = keys / prepared.batch_size * (HERE.rates.pulled(dim) + HERE.rates.pushed(dim))  # a sample has a shard, too
    return Load(rows, prepared.passes, max(row - shared, LEAST_WORK * row), keys, prepared.batch_size, power, dim, cost.size)


def keys_of(prepared: Prepared) -> tuple[float, float]:
    """Return the distinct keys of a batch, and with which power of the batch they grow, by the first rows of the input."""
    tables = (t for split in prepared.splits for t in prepared.scan.read(split, prepared.columns.inputs, CHUNK_ROWS))
    table = next(table for table in tables if table.num_rows)[:FEATURE_ROWS]
    chunk, rows = prepared.encoder.scored(table), table.num_rows
    few = max(1, min(prepared.batch_size, rows // 4))
    least, most = (max(1, int(used(chunk, count).sum())) for count in (few, rows))
    power = POWER if rows < 2 * few else min(1.0, math.log(most / least) / math.log(rows / few))
    return least * (prepared.batch_size / few) ** power, power


def late(prepared: Prepared, load: Load, where: Where, tasks: Tasks | None, nearest: TrainingWay | None) -> str:
    """Return the message where no way is in time."""
    settings, seconds = prepared.plan.settings, prepared.plan.settings.target_seconds
    assert seconds is not None
    if nearest is None:
        needed = f"{load.size / 1e9:.1f} GB of rows, or for the workers and shards given"
        return f"{TARGET} = '{settings.target}' cannot be planned: there is no room for {needed}."
    text = f"No way of running the training takes {settings.target} or less. The nearest takes about "
    text += f"{duration(nearest.seconds)}: {places_text(nearest)}. "
    more = best(ways(prepared, load, where, tasks, math.inf), seconds) if tasks is not None else None
    if more is not None:
        assert tasks is not None
        return f"{text}{places_text(more)} would do. {tasks.words.more_cores}, or allow more time."
    return f"{text}Allow as much, or {'use an engine with more cores' if tasks is None else 'learn from fewer rows'}."


def duration(seconds: float) -> str:
    """Return a duration in the unit that suits it."""
    for unit, length in (("hours", 3600.0), ("minutes", 60.0)):
        if seconds >= length:
            return f"{seconds / length:.1f} {unit}"
    return f"{seconds:.1f} seconds"


def places_text(found: TrainingWay) -> str:
    """Return workers, shards and batch size in words."""
    shards, workers = found.places
    return f"{workers} {plural('worker', workers)}, {shards} {plural('shard', shards)}, batch_size {found.batch}"


def cost_text(found: TrainingWay, price: float | None) -> str:
    """Return what a way takes: time, core hours, memory, staleness and money."""
    parts = [duration(found.seconds), f"{found.core_hours:.3g} core hours", f"{found.shard_bytes / 1e9:.2g} GB a shard"]
    parts += [f"one row in {1 / found.under_way:.0f} under way"] if found.places.workers > 1 else ["no row under way elsewhere"]
    parts += [] if price is None else [f"price {found.core_hours * price:.4g}"]
    return ", ".join(parts)


def note_of(prepared: Prepared, planned: Planned) -> str:
    """Return what a training says that takes what is planned."""
    settings = prepared.plan.settings
    return (
        f"For {TARGET} = '{settings.target}': {places_text(planned.chosen)}; about {cost_text(planned.chosen, settings.price)}."
    )


def rows_of(prepared: Prepared, planned: Planned) -> list[tuple[str, str]]:
    """Return what EXPLAIN says of a target: the way that a training takes, and the best one of each number of workers."""
    settings = prepared.plan.settings
    chosen = f"{settings.target}: {places_text(planned.chosen)}, sync {settings.sync}"
    return [("target", chosen), *(plan_row(one, settings.price) for one in planned.others)]


def plan_row(found: TrainingWay, price: float | None) -> tuple[str, str]:
    """Return the row of EXPLAIN of a way that could be taken."""
    workers, _, rest = places_text(found).partition(", ")
    return f"plan: {workers}", f"{rest}: {cost_text(found, price)}"
