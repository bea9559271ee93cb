"""The begin of a pass of a training whose operators count by pass: as the first one began."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from ....warehouse.version import Version
from ...ps.passes import LAST_SEEN, put_back
from ...ps.shard import Shard
from .columns import values
from .rows import beginning_of, covering


def begin_pass(shards: Mapping[int, Shard], num_shards: int, number: int, parent: Version | None) -> None:
    """Put what operators count by pass in some of the shards, and event time, back to what they were when the training began.

    A shard that is in that pass already stays as it is; what was interrupted is done again.

    Args:
        parent: the version that the training continues; None: it began with nothing.
    """
    waiting = {at: shard for at, shard in shards.items() if shard.pass_number < number}
    if not waiting:
        return
    for shard in waiting.values():
        shard.clear_pass()
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
