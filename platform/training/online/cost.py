"""The cost of learning batch by batch: a few batches are read, encoded, learned from, and forgotten."""

from __future__ import annotations

import functools
import time
from dataclasses import replace
from itertools import islice, pairwise
from statistics import fmean

from ....warehouse.trainings.progress import LEARNING
from ...cores import cores, encoders
from ...input.batches import Batch
from ...input.runs.finding import RunsOfSplit
from ...input.source import row_of
from ...input.splits import chunk_rows
from ...input.timing import Clock, Compiled
from ...ps.client import LocalClient
from ...ps.messages import BatchId
from ..compiled import compilations, share_work
from ..estimates import Cost, estimated_bytes
from ..prepared import Prepared
from ..row_files.rows import new_shard
from .planting import with_tree_of_sample
from .worker import Worker

MOST = 32
SAMPLE_SECONDS, LEAST_SECONDS = 1.5, 0.1
"""So long a sample is read and learned from, and so long at least after its first batch, which may take long to compile."""
AT_ONCE = 0.5
"""The part of the shorter of reading and learning that does not overlap with the longer one where both have a core."""
FOUND_SECONDS = 0.02
"""What it takes to find a program in the cache, which is not compiled again."""
UNLIKE_SAMPLE = 1.35
"""What reading and learning take as a multiple of the sample's, whose rows the caches hold: the mean of twelve algorithms."""
NEW_ROW_SECONDS, BYTE_SECONDS = 1.5e-7, 4e-9
"""What it takes to create a row, and to write a byte of rows into the version, here."""


def cost(prepared: Prepared) -> Cost:
    """Return the cost of a pass, from a sample of its first batches. They are learned from twice: once to compile the programs,
    and again to measure, as many as there is time for."""
    deadline = time.perf_counter() + SAMPLE_SECONDS
    share_work(cores())
    prepared = with_tree_of_sample(replace(prepared, on_shards=False))  # here is one worker
    features = prepared.features()
    size = estimated_bytes(prepared.recipe, features)
    batches, seconds, sampled = first_batches(prepared)
    if not batches:
        return Cost(0.0, features, size)
    rows, number = prepared.counts.total, sum(prepared.batches)
    steps, begin = stepped(prepared, batches, deadline)
    reading, learning = seconds * rows / sampled / encoders(prepared.places.workers), number * fmean(steps)
    shorter, longer = sorted((reading, learning))
    once = begin + features * NEW_ROW_SECONDS + size * BYTE_SECONDS
    return Cost(UNLIKE_SAMPLE * (longer + (AT_ONCE if cores() > 1 else 1) * shorter), features, size, once)


def first_batches(prepared: Prepared) -> tuple[list[Batch], float, float]:
    """Return batches of the first pieces of the input, and the seconds that reading and encoding took for so many rows; the
    first of several pieces is not counted, as it warms up caches."""
    encoder, size = prepared.encoder, prepared.batch_size
    found: list[Batch] = []
    spent: list[tuple[float, float]] = []
    for number, split in enumerate(prepared.splits):
        begun = time.perf_counter()
        runs = RunsOfSplit()
        for table in prepared.scan.read(split, prepared.columns.learned, chunk_rows(size)):
            if table.num_rows:
                where = functools.partial(row_of, prepared.scan, split, 0)
                chunk, ready = encoder.chunk(table, where), time.perf_counter()
                made = encoder.batches(chunk, size, BatchId(split=number), prepared.recipe.ladders, 0, runs)
                cut = list(islice(made, MOST - len(found)))
                share = len(cut) * size / table.num_rows  # of the cutting, which goes on where there are more batches
                whole = ready - begun + (time.perf_counter() - ready) / min(share, 1.0)
                spent.append((whole, table.num_rows))
                found += cut
            if len(found) >= MOST:
                break
            begun = time.perf_counter()
        if len(found) >= MOST:
            break
    counted = spent[1:] or spent
    return found, sum(seconds for seconds, _ in counted), sum(rows for _, rows in counted)


def stepped(prepared: Prepared, batches: list[Batch], deadline: float) -> tuple[list[float], float]:
    """Learn from batches twice, and return the seconds that each took the second time, of those that there was time for before
    the deadline; and what all took more the first time, without compilation: programs are traced, and found."""
    shard = new_shard(prepared.recipe, 0, 1, prepared.columns, 0)
    shard.watermarks = None  # the same batches come again
    ends: list[float] = []
    worker = Worker(
        0,
        LocalClient([shard]),
        prepared.recipe,
        lambda batch, predictions: ends.append(time.perf_counter()),
        lambda end: None,
        Clock(LEARNING),
    )
    compiled, begun = Compiled(), time.perf_counter()
    with compilations(lambda seconds: compiled.add(max(0.0, seconds - FOUND_SECONDS))):
        # half of the time after the first batch, as all are learned from again
        worker.learn(
            batches, lambda: not ends or ends[-1] < max(ends[0] + LEAST_SECONDS, (ends[0] + deadline) / 2), paced=False
        )
    first, warm = ends[-1] - begun - compiled.seconds, batches[: len(ends)]
    ends[:] = [time.perf_counter()]
    worker.learn(warm, lambda: ends[-1] < max(ends[0] + LEAST_SECONDS, deadline), paced=False)
    steps = [stop - start for start, stop in pairwise(ends)]
    return steps, max(0.0, first - len(warm) * fmean(steps))
