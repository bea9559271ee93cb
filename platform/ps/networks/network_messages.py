"""What workers and shards say to each other about networks that shards run."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..messages import Arrays, Floats

Codes = NDArray[np.int32]


class OutputsAsked(NamedTuple):
    """A request for what networks make of vectors.

    Attributes:
        worker: who asks.
        codes: by the name of vectors, int32[k], ascending: which of them; see `input.side.table`.
        alone: the batch is only scored, which is no step: the answer waits for nobody.
    """

    worker: int
    codes: dict[str, Codes]
    alone: bool


class OutputsMade(NamedTuple):
    """By the name of vectors, float32[k, dim]."""

    values: dict[str, Floats]


class NetworkGradient(NamedTuple):
    """What a shard's vectors contribute to one step of the networks' parameters.

    Attributes:
        shard: whose.
        step: its number, from 0.
        gradients: by piece, summed over the examples of all workers; pieces without one have zeros.
        examples: of the step.
    """

    shard: int
    step: int
    gradients: Arrays
    examples: int


class ParametersAsked(NamedTuple):
    """A request for a shard's pieces of the networks' parameters, after so many steps."""

    after: int


class ParametersMade(NamedTuple):
    """Pieces by name."""

    values: Arrays
