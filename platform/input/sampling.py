"""Features drawn at random for each batch, and how much frequent ones count; both by what a piece of the input holds."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...algorithms.base import Sampling
from ..ps.messages import BatchId
from .chunk import Chunk


class Sampler:
    """Draws codes of a chunk: a function of the seed, the pass, the chunk and the batch's number in its split.

    What the chunk holds stands for the number of its split, so that a version that continues another draws what one training on
    all the data would have.

    Args:
        chunk: with multi-valued slots.
    """

    def __init__(self, sampling: Sampling, chunk: Chunk, seed: int) -> None:
        counts = occurrences(chunk)
        self._codes = np.flatnonzero(counts).astype(np.int32)
        self._upto = np.cumsum(counts[self._codes] ** sampling.power)
        self._number = sampling.number
        self._seeds = (seed, int(np.bitwise_xor.reduce(chunk.keys)), len(chunk.weight))

    def draw(self, which: BatchId) -> NDArray[np.int32]:
        """Return codes, int32[number]; none where the chunk has no values."""
        if not len(self._codes):
            return self._codes
        random = np.random.default_rng((*self._seeds, which.pass_number, which.batch))
        places = np.searchsorted(self._upto, random.random(self._number) * self._upto[-1], side="right")
        chosen: NDArray[np.int32] = self._codes.take(places)
        return chosen


def occurrences(chunk: Chunk) -> NDArray[np.float64]:
    """Return how often each code of a chunk is a value of its multi-valued slots."""
    counts = np.zeros(len(chunk.keys))
    for bag in chunk.bags:
        counts += np.bincount(bag.codes, minlength=len(counts))
    return counts


def weighed(chunk: Chunk, frequent: float) -> Chunk:
    """Return the chunk with the weights of values that make up a share f above `frequent` times sqrt(frequent / f)."""
    counts = occurrences(chunk)
    share = counts / max(counts.sum(), 1)
    weights = np.sqrt(frequent / np.maximum(share, frequent)).astype(np.float32)
    return chunk._replace(bags=tuple(bag._replace(weights=bag.weights * weights[bag.codes]) for bag in chunk.bags))
