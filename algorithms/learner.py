"""The contract of a package that learns in an algorithm's stead: its inputs and outputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray


class Matrix(NamedTuple):
    """Examples as packages take them.

    Attributes:
        values: float32[n, columns]: for each categorical slot the number of its category, from 0, then continuous slots and the
            elements of vectors as they are, finite; NaN where a value is missing or a category is not known.
        names: of the columns.
        num_categorical: how many columns, the first ones, are categories.
        label, weight: float32[n]; of examples that are learned from; a label with classes is the number of one.
    """

    values: NDArray[np.float32]
    names: tuple[str, ...]
    num_categorical: int
    label: NDArray[np.float32]
    weight: NDArray[np.float32]


Predict = Callable[[Matrix], NDArray[np.float32]]
"""Examples -> predictions, float32[n]; of a label with classes float32[n, classes]."""


Contributions = Callable[[Matrix], NDArray[np.float32]]
"""Examples -> float32[n, columns + 1]: what each column adds to the score of each, and the score that none of them adds to."""


class Peers(NamedTuple):
    """How a process finds the others that a package learns with, each from examples of its own.

    Attributes:
        number: of this process among them, from 0.
        host, port: where they meet.
    """

    number: int
    host: str
    port: int


class RoundJudge(Protocol):
    """Rows held out, which judge a model after each round that it learns.

    Attributes:
        matrix: the rows.
    """

    matrix: Matrix

    def after(self, predictions: NDArray[np.float32]) -> bool:
        """Take the predictions of these rows after a further round, and return whether no more are needed."""
        ...

    @property
    def kept(self) -> int:
        """How many of those rounds, from the first on, the model has."""
        ...


class PackageFile(NamedTuple):
    """A model in the package's own format, which other programs read by that package."""

    file: str
    content: bytes


class Learner(Protocol):
    """What a package learns and predicts with. Its packages are imported where they are used.

    Attributes:
        categories: values of a categorical slot that get a number, the most frequent ones.
    """

    categories: int

    def gathering(self, count: int, host: str) -> AbstractContextManager[int]:
        """Run the rendezvous of `count` processes in this one, which is one of them, while the block runs; yield the port.

        Args:
            host: the number of this machine.
        """
        ...

    def fit(
        self,
        matrix: Matrix,
        seed: int,
        threads: int,
        before: bytes | None,
        peers: Peers | None,
        rounds: int | None,
        judge: RoundJudge | None,
    ) -> bytes:
        """Learn, going on from a model where one is given, and return the model.

        Args:
            peers: processes that learn the same model from other examples, all at the same time; None for none.
            rounds: so many; None: as the options say.
            judge: says when to stop, and what is kept; None, as it is with peers: all rounds are.

        Raises:
            LostError: one of them is lost.
        """
        ...

    def judged(self, model: bytes, before: bytes | None, judge: RoundJudge) -> bytes:
        """Return what a judge keeps of a model that is learned: the same as of one that is learned under its eyes.

        Args:
            before: the model that it went on from.
        """
        ...

    def load(self, model: bytes) -> Predict:
        """Return how a model predicts."""
        ...

    def contributions(self, model: bytes) -> Contributions:
        """Return how a model's scores come about."""
        ...

    def importance(self, model: bytes) -> Mapping[str, float]:
        """Return the gain of a model by column name, without columns that gained nothing."""
        ...

    def portable(self, model: bytes) -> PackageFile:
        """Return a model as a file for other programs."""
        ...
