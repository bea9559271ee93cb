"""Stage vectors_run: whether workers or shards run the networks over vectors with ids."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from ...display import size_text
from ...input.encoder import Encoder
from ...input.side.table import FIRST, VALUES, Side
from ...input.splits import chunk_rows
from ..prepared import Prepared
from .base import Preparation, Stage

MOST_SAMPLED = 16
"""Batches of the sample: of one step of so many workers."""
MEMORY_SHARE, SHARED = 0.5, 0.5
OUTPUT_WAYS, CODE_BYTES = 2, 4
"""An output comes, and its gradient goes back; each with the number of its vector."""


class DistinctVectors(NamedTuple):
    """What one step needs of vectors, by the beginning of the input.

    Attributes:
        each: by kind of vectors, the distinct ones of a batch, on average.
        share: distinct vectors of all workers together, by the sum over workers.
    """

    each: tuple[float, ...]
    share: float


def rows(given: Preparation) -> Preparation:
    """Decide by what the statement says; where it does not, by the size of the vectors and what workers have in common."""
    settings, there = given.plan.settings, [side for side in given.columns.sides if side.folder]
    if settings.vectors_run != "auto" or not there:
        return given.having(on_shards=bool(there) and settings.vectors_run == "shards")
    if not settings.together or settings.device == "gpu" or settings.rows_on == "device":
        return given
    memory = None if given.tasks is None else given.tasks.memory_bytes()
    if memory is not None and sum(map(size_of, there)) > MEMORY_SHARE * memory:
        return given.having(on_shards=True)
    size, workers = given.sizes.batch_size, given.sizes.places.workers
    if workers == 1:
        return given
    encoder = Encoder(given.columns, given.recipe.algorithm, settings.seed, False, vectors=False)
    return given.having(on_shards=distinct_of(given, encoder, size, workers).share < SHARED)


def size_of(side: Side) -> int:
    """Return the bytes of vectors that are written."""
    return (Path(side.folder) / VALUES).stat().st_size


def distinct_of(read: Preparation | Prepared, encoder: Encoder, batch_size: int, workers: int) -> DistinctVectors:
    """Return what the batches of a step have of vectors: the first of as many splits as there are workers."""
    most, found = min(workers, MOST_SAMPLED), list[list[frozenset[int]]]()
    for split in read.splits:
        for table in read.scan.read(split, read.columns.inputs, chunk_rows(batch_size)):
            for first in range(0, table.num_rows, batch_size):
                sides = encoder.scored(table[first : first + batch_size]).sides
                found.append([frozenset(side.codes[side.codes >= FIRST].tolist()) for side in sides])
                if len(found) == most:
                    return shared(found)
                if workers <= len(read.splits):
                    break
            if workers <= len(read.splits):
                break  # each worker has a split of its own
    return shared(found)


def shared(found: Sequence[Sequence[frozenset[int]]]) -> DistinctVectors:
    """Return what batches have, by the distinct vectors of each kind in each."""
    each = [sum(map(len, kind)) for kind in zip(*found, strict=True)]
    together = sum(len(frozenset().union(*kind)) for kind in zip(*found, strict=True))
    return DistinctVectors(tuple(one / len(found) for one in each), together / sum(each) if sum(each) else 1.0)


def described(made: Prepared) -> list[tuple[str, str]]:
    """Say of vectors where their network runs, and what a batch moves."""
    encoder = Encoder(made.columns, made.recipe.algorithm, made.plan.settings.seed, False, vectors=False)
    each = distinct_of(made, encoder, made.batch_size, made.places.workers).each
    found = []
    for side, network, batch in zip(made.columns.sides, made.recipe.algorithm.sides, each, strict=True):
        vector, whole, own = 4 * side.elements, size_of(side), round(batch)
        text = f"{whole // vector:,} of {side.elements:,} floats, {size_text(whole)}, for {', '.join(side.slots)}; "
        if made.on_shards:
            text += f"shards run the network, each over {size_text(whole / made.places.shards)}; a batch has {own:,} distinct: "
            text += f"{size_text(own * OUTPUT_WAYS * (CODE_BYTES + 4 * network.dim))} in place of {size_text(own * vector)}"
        else:
            text += f"workers run the network; a batch has {own:,} distinct: {size_text(own * vector)}"
        found.append((f"vectors {side.name}", text))
    return found


STAGE = Stage(rows=rows)
