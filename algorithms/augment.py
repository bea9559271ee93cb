"""The contract of augments (data augmentation): how examples are changed on their way from a chunk of the input into
batches."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import NamedTuple

from .chunk import Chunk
from .inputs import Layout

Prepare = Callable[[Chunk, int, int], Chunk]
"""(piece, start, stop) -> the piece with an augment's changes. The piece has rows start:stop of the chunk, as the augments
before this one have changed and multiplied them; its codes are the chunk's."""


class Draw(NamedTuple):
    """The seed of random numbers, beside the content of a chunk, so that a version that continues another draws what one
    training on all the data would draw.

    Attributes:
        seed: of the training.
        pass_number: of its passes.
        batch: the number of the chunk's first batch in its split.
    """

    seed: int
    pass_number: int
    batch: int


class Augment(ABC):
    """Changes the examples of a chunk; listed in `Online.augment`, in order."""

    @property
    def copies(self) -> int:
        """Rows that each row becomes, itself the first."""
        return 1

    @property
    def scores(self) -> bool:
        """Whether scored rows are changed, too; else only rows that are learned from."""
        return False

    @abstractmethod
    def prepare(self, chunk: Chunk, layout: Layout, draw: Draw) -> Prepare:
        """Look at a whole chunk, about 131,072 rows of the input, and return how its pieces are changed."""
