"""Negative sampling of features, and subsampling of frequent ones; both by the content of a piece of the input."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..augment import Augment, Draw, Prepare
from ..chunk import Chunk
from ..inputs import Layout


@dataclass(frozen=True)
class Sampling(Augment):
    """How random features are drawn for an algorithm that contrasts features with them.

    Attributes:
        number: drawn for each batch, with replacement, among the values of categorical and multi-valued slots in the piece of
            the input that the batch is cut from (about 131,072 rows).
        power: they are drawn by count^power.
        frequent: values that make up a larger share f of all have `BagRows.weight` sqrt(frequent / f) while learning.
    """

    number: int
    power: float
    frequent: float

    def prepare(self, chunk: Chunk, layout: Layout, draw: Draw) -> Prepare:
        """See Augment."""
        sampler, weights = Sampler(self, chunk, draw.seed), weights_of(chunk, self.frequent)
        return lambda piece, start, stop: weighed(piece, weights)._replace(drawn=sampler.draw)


class Sampler:
    """Draws codes of a chunk: a function of the seed, the pass, what the chunk holds, and the batch's number in its split; see
    Draw.

    Args:
        chunk: with multi-valued slots.
    """

    def __init__(self, sampling: Sampling, chunk: Chunk, seed: int) -> None:
        counts = occurrences(chunk)
        self._codes = np.flatnonzero(counts).astype(np.int32)
        self._upto = np.cumsum(counts[self._codes] ** sampling.power)
        self._number = sampling.number
        self._seeds = (seed, int(np.bitwise_xor.reduce(chunk.keys)), len(chunk.weight))

    def draw(self, pass_number: int, batch: int) -> NDArray[np.int32]:
        """Return codes for a batch, int32[number]; none where the chunk has no values."""
        if not len(self._codes):
            return self._codes
        random = np.random.default_rng((*self._seeds, pass_number, batch))
        places = np.searchsorted(self._upto, random.random(self._number) * self._upto[-1], side="right")
        chosen: NDArray[np.int32] = self._codes.take(places)
        return chosen


def occurrences(chunk: Chunk) -> NDArray[np.float64]:
    """Return how often each code of a chunk is a value of its categorical and multi-valued slots."""
    counts = np.bincount(chunk.scalar[chunk.scalar >= 0], minlength=len(chunk.keys)).astype(np.float64)
    for bag in chunk.bags:
        counts += np.bincount(bag.codes, minlength=len(counts))
    return counts


def weights_of(chunk: Chunk, frequent: float) -> NDArray[np.float32]:
    """Return float32[num_codes]: of values that make up a share f above `frequent`, sqrt(frequent / f); 1 of others."""
    counts = occurrences(chunk)
    share = counts / max(counts.sum(), 1)
    weights: NDArray[np.float32] = np.sqrt(frequent / np.maximum(share, frequent)).astype(np.float32)
    return weights


def weighed(chunk: Chunk, weights: NDArray[np.float32]) -> Chunk:
    """Return the chunk with the weights of values multiplied by the weights of their codes."""
    return chunk._replace(bags=tuple(bag._replace(weights=bag.weights * weights[bag.codes]) for bag in chunk.bags))
