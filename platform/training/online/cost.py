"""What learning batch by batch costs: a few batches are read, encoded and learned from, and forgotten."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import islice, pairwise
from statistics import median

from ....warehouse.progress import LEARNING
from ...cores import cores
from ...input.batches import Batch
from ...input.source import row_of
from ...input.splits import chunk_rows
from ...input.timing import Clock
from ...ps.client import LocalClient
from ...ps.messages import BatchId
from ..compiled import share_work
from ..estimates import SAMPLED_SECONDS, Cost, estimated_bytes, estimated_features
from ..prepared import Prepared
from ..rows import new_shard
from .worker import Worker

LEAST, MOST = 3, 64
AT_ONCE = 0.5
"""Of the shorter of reading and learning, the part that is not hidden behind the longer one where both have a core."""


def cost(prepared: Prepared) -> Cost:
    """Return what a pass costs, by a sample: a piece of the input, and as many of its batches as there is time for."""
    share_work(cores())
    begun, rows = time.perf_counter(), sum(split.rows for split in prepared.splits)
    features = estimated_features(prepared.scan, prepared.splits, prepared.columns, prepared.encoder)
    size = estimated_bytes(prepared.recipe, features)
    started = time.perf_counter()
    cut: list[float] = []
    batches, encoded = first_batches(prepared, cut)
    if not encoded:
        return Cost(0.0, features, size)
    per_row = (time.perf_counter() - started - sum(cut)) / encoded
    steps = stepped(prepared, batches, begun + SAMPLED_SECONDS)
    number = sum(-(-split.rows // prepared.batch_size) for split in prepared.splits)
    reading, learning = rows * per_row + number * median(cut), number * median(steps)
    shorter, longer = sorted((reading, learning))
    return Cost(longer + (AT_ONCE if cores() > 1 else 1) * shorter, features, size)


def first_batches(prepared: Prepared, cut: list[float]) -> tuple[list[Batch], int]:
    """Return some batches of the first piece of the input, and the rows of that; note the seconds that cutting each took."""
    encoder, size = prepared.encoder, prepared.batch_size
    encoder.begin_split()
    for number, split in enumerate(prepared.splits):
        for table in prepared.scan.read(split, prepared.columns.learned, chunk_rows(size)):
            if table.num_rows:
                chunk = encoder.chunk(table, lambda row, split=split: row_of(prepared.scan, split, 0, row))  # type: ignore[misc]
                made = encoder.batches(chunk, size, BatchId(split=number), prepared.recipe.ladders, 0)
                return list(islice(timed(made, cut), MOST)), table.num_rows
    return [], 0


def timed(batches: Iterator[Batch], seconds: list[float]) -> Iterator[Batch]:
    """Yield batches, and note how long each took to make."""
    while True:
        begun = time.perf_counter()
        batch = next(batches, None)
        if batch is None:
            return
        seconds.append(time.perf_counter() - begun)
        yield batch


def stepped(prepared: Prepared, batches: list[Batch], until: float) -> list[float]:
    """Learn from batches, of a few at least while there is time, and return the seconds that each took."""
    shard = new_shard(prepared.recipe, 0, 1, prepared.columns, 0)
    shard.watermarks = None  # the sample may begin in any split
    ends = [time.perf_counter()]
    worker = Worker(
        0,
        LocalClient([shard]),
        prepared.recipe,
        lambda batch, predictions: ends.append(time.perf_counter()),
        lambda end: None,
        Clock(LEARNING),
    )
    worker.learn(batches, lambda: len(ends) <= LEAST or time.perf_counter() < until, paced=False)
    return [stop - start for start, stop in pairwise(ends)]
