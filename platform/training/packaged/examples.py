"""The examples of a package's training: categories numbered, a matrix of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ....algorithms.learner import Learner, Peers, RoundJudge
from ....warehouse.package import read_package
from ...input.batches import Batch
from ..metrics.metrics import LabelMetrics, Tally
from ..prepared import Prepared
from ..solved.examples import KeyedFeatures, batches_of, features_of, united
from ..solved.rates import rates_of
from ..solved.solve import found_in
from .matrix import column_names, joined, matrix_of

Numbers = NDArray[np.float32]


class PackageExamples:
    """The examples of some splits, for a package to learn.

    Attributes:
        features: their categories.
        examples: how many there are.
        kept: what operators keep of features.

    Raises:
        DataError: see encode and check.
    """

    def __init__(self, prepared: Prepared, splits: Sequence[int]) -> None:
        self._prepared = prepared
        self._batches = [batch for split in splits for batch in batches_of(prepared, split)]
        self.examples = sum(batch.examples for batch in self._batches)
        self._offered, self.kept = rates_of(prepared, self._batches)
        features, _ = united([features_of(batch) for batch in self._batches])
        categorical = {slot.number for slot in prepared.columns.scalar}
        self.features = features.only(np.isin(features.slots, list(categorical)))

    def learn(
        self, numbers: Numbers, threads: int, peers: Peers | None, judge: RoundJudge | None = None
    ) -> tuple[bytes, tuple[Tally, ...]]:
        """Let the package learn, and return its model and the metrics of these examples.

        Args:
            numbers: float32[n], of the features.
            peers: that learn with this process.
            judge: of the rounds.
        """
        prepared, learner = self._prepared, learner_of(self._prepared)
        names, rounds = column_names(prepared.columns), None if prepared.choice is None else prepared.choice + 1
        parts = [
            matrix_of(batch, numbers_of(batch, self.features, numbers), names, offered)
            for batch, offered in zip(self._batches, self._offered, strict=True)
        ]
        matrix, seed = joined(parts, prepared.columns), prepared.plan.settings.seed
        model = learner.fit(matrix, seed, threads, model_before(prepared), peers, rounds, judge)
        predict, metrics = learner.load(model), LabelMetrics(prepared.targets.ungrouped)
        for part in parts:
            metrics.add(part.label[None], predict(part).reshape(len(part.label), -1).T)
        return model, metrics.tallies()


def model_before(prepared: Prepared) -> bytes | None:
    """Return the model that a training continues."""
    return None if prepared.parent is None else read_package(prepared.parent.stored("package")[0])


def learner_of(prepared: Prepared) -> Learner:
    """Return what the package learns with."""
    learner = prepared.recipe.algorithm.learns.learner
    assert learner is not None
    return learner


def numbers_of(batch: Batch, features: KeyedFeatures, numbers: Numbers) -> Numbers:
    """Return the numbers of a batch's rows, float32[size]; 0 where one has none."""
    known, place = found_in(features.keys, batch.keys)
    own = np.zeros(batch.size, np.float32)
    if known.any():
        own[: len(known)] = np.where(known, numbers[place], 0)
    return own
