"""The begin of a training, and of each of its passes, if what rows have of a pass begins as in the first one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from ....warehouse.version import Version
from ...input.columns import INTERCEPT
from ...ps.compiled.table_programs import STATISTICS, Programs
from ...ps.keys import slot_seed
from ...ps.passes import LAST_SEEN, put_back
from ...ps.placement import shard_of
from ...ps.shard import Shard
from ...reserved import INTERCEPT_NUMBER
from ..recipe import Recipe
from .columns import values
from .rows import beginning_of, covering

INTERCEPT_KEYS = np.array([slot_seed(INTERCEPT)], np.uint64)


def begin(shards: Mapping[int, Shard], num_shards: int, recipe: Recipe, baseline: Sequence[float]) -> None:
    """Put the intercept of a new model into the shard that has its slice, if it is one of these shards.

    Args:
        baseline: its weights, one for each label; none where it begins like other features.
    """
    row: dict[str, NDArray[np.generic]] = {name: np.zeros(1, np.uint32) for name in STATISTICS}
    row["slot"] = np.array([INTERCEPT_NUMBER], np.uint16)
    for shard, programs, columns in intercepts(shards, num_shards, recipe, baseline):
        shard.holding(programs.spec.name).load(programs.spec.name, INTERCEPT_KEYS, row | columns, 0)


def intercepts(
    shards: Mapping[int, Shard], num_shards: int, recipe: Recipe, baseline: Sequence[float]
) -> Iterator[tuple[Shard, Programs, dict[str, NDArray[np.float32]]]]:
    """Yield what the intercept begins with, table by table, if one of these shards has its slice; arguments as for begin."""
    shard = shards.get(int(shard_of(INTERCEPT_KEYS, num_shards)[0]))
    if not baseline or shard is None:
        return
    intercept = recipe.algorithm.intercept
    assert intercept is not None
    begins = {name: [score] for name, score in zip(intercept.tables, baseline, strict=False)}
    begins = begins or {recipe.programs[0].spec.name: list(baseline)}
    for programs in recipe.programs:
        if (weights := begins.get(programs.spec.name)) is not None:
            yield shard, programs, programs.starting(np.array(weights, np.float32))


def begin_pass(
    shards: Mapping[int, Shard], num_shards: int, number: int, parent: Version | None, recipe: Recipe, baseline: Sequence[float]
) -> None:
    """Put what rows of some of the shards have of a pass, and event time, back to what they were when the training began.

    A shard that is in that pass already stays as it is; what was interrupted is done again.

    Args:
        parent: the version that the training continues; None: it began with nothing.
        recipe, baseline: as of `begin`.
    """
    waiting = {at: shard for at, shard in shards.items() if shard.pass_number < number}
    if not waiting:
        return
    for shard in waiting.values():
        shard.clear_pass()
    for shard, programs, columns in intercepts(waiting, num_shards, recipe, baseline):
        own = {programs.columns[name]: values for name, values in columns.items() if name in programs.chain.per_pass}
        put_back(shard.holding(programs.spec.name), INTERCEPT_KEYS, own)
    if parent is not None:
        reload(waiting, num_shards, parent)
    now, examples, positives = (0, 0, 0.0) if parent is None else beginning_of(parent)
    for shard in waiting.values():
        shard.begin_pass(number, now, examples, positives)


def reload(shards: Mapping[int, Shard], num_shards: int, parent: Version) -> None:
    """Give rows what a version knows of them of what is counted by pass, and when it saw them last."""
    kept = {entry.name: entry.columns for entry in parent.manifest.tables}
    programs = {name: p for shard in shards.values() for t in shard.tables.values() for name, p in t.programs.tables.items()}
    wanted = {name: {own: dim for own, dim in kept[name].items() if own in programs[name].chain.per_pass} for name in kept}
    columns = {name: ["key", LAST_SEEN, *own] for name, own in wanted.items()}
    for name, batch, gone in parent.replayed(columns, covering(shards, num_shards)):
        keys = np.ascontiguousarray(values(batch.column(0)).view(np.uint64))
        known: dict[str, NDArray[np.generic]] | None = None
        if not gone:
            known = {LAST_SEEN: values(batch[LAST_SEEN])}
            for own, dim in wanted[name].items():
                known[programs[name].columns[own]] = np.asarray(values(batch[own]), np.float32).reshape(-1, dim)
        for shard in shards.values():
            put_back(shard.holding(name), keys, known)
