"""Batches of histories that were searched, without the features that were not chosen: a step and a push cost what is seen."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....algorithms.blocks.base import every
from ...input.batches import Batch
from ...ps.compiled.ladder import Ladder
from ...ps.messages import Pulled


def narrowed(batch: Batch, pulled: Pulled, ladder: Ladder) -> tuple[Batch, Pulled]:
    """Return a batch with the keys that its arrays still name, and what was pulled of them.

    A feature that is in the history alone and was not chosen has no part in the step. It is not counted, and gets no row; where
    it has none it is read as a new row would start, as before.

    Args:
        ladder: of the rows of batches that are narrowed.
    """
    m, used = len(batch.keys), np.zeros(batch.size, np.bool_)
    arrays: list[Any] = [batch.scalar, batch.bags.rows, batch.dense_index, batch.offered_index, batch.sampled_index]
    arrays += [record.rows for records in batch.blocks.values() for record in records]
    for own in arrays:
        if own is not None:
            used[own] = True
    kept = np.flatnonzero(used[:m])
    places = np.full(batch.size, len(kept), np.int32)
    places[kept] = np.arange(len(kept), dtype=np.int32)
    size = ladder.size(len(kept) + 1)

    def rows_of(values: Any) -> Any:
        taken = np.zeros((size, *values.shape[1:]), values.dtype)
        np.take(values, kept, axis=0, out=taken[: len(kept)])
        return taken

    def moved(own: Any) -> Any:
        return None if own is None else places.take(own)

    batch = batch._replace(
        keys=batch.keys[kept],
        size=size,
        scalar=moved(batch.scalar),
        bags=batch.bags._replace(rows=moved(batch.bags.rows)),
        dense_index=moved(batch.dense_index),
        offered_index=moved(batch.offered_index),
        sampled_index=moved(batch.sampled_index),
        blocks=every(batch.blocks, lambda one: one if one.rows is None else one.with_rows(moved(one.rows))),
        slots=batch.slots[kept],
        counts=batch.counts[kept],
        clicks=batch.clicks[kept],
    )
    weights, offered = ({name: rows_of(np.asarray(own)) for name, own in of.items()} for of in (pulled.weights, pulled.offered))
    updates = {name: own[kept] for name, own in pulled.updates.items()}
    return batch, pulled._replace(weights=weights, offered=offered, updates=updates)
