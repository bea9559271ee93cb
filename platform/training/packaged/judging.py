"""Rows held out judge a package's rounds: after each the metrics, when to stop, and which rounds the version has."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from ....algorithms.learner import Matrix, RoundJudge
from ...input.batches import Batch
from ..metrics.metrics import LabelMetrics
from ..metrics.validations import Validated
from ..monitor import Monitor
from ..prepared import Prepared
from ..solved.examples import KeyedFeatures
from ..validation import Validator, note_of_stop, require_rows
from .examples import Numbers, numbers_of
from .matrix import column_names, joined, matrix_of


class HeldRows(RoundJudge):
    """The rows that VALIDATE holds out of a package's training.

    Args:
        validator: reads them.
        features, numbers: the categories of what is learned, and their numbers.
        examples: that are learned.

    Attributes:
        matrix: of these rows.
        kept: see RoundJudge.
    """

    def __init__(
        self,
        prepared: Prepared,
        validator: Validator,
        features: KeyedFeatures,
        numbers: Numbers,
        examples: int,
        monitor: Monitor,
    ) -> None:
        names = column_names(prepared.columns)

        def parts() -> Iterator[Matrix]:
            for batch in batches_of(validator):
                yield matrix_of(batch, numbers_of(batch, features, numbers), names, {})

        self.matrix = joined([*parts()], prepared.columns)
        require_rows(len(self.matrix.label))
        self._validator, self._monitor, self._examples = validator, monitor, examples
        self._judging, self._metrics = prepared.trial.judging, functools.partial(LabelMetrics, prepared.targets.final)

    def after(self, predictions: NDArray[np.float32]) -> bool:
        """See RoundJudge."""
        validations, metrics, labels = self._monitor.validations, self._metrics(), self.matrix.label[None]
        by_label = predictions.reshape(len(self.matrix.label), -1).T
        metrics.add(labels, by_label)
        self._monitor.validated(Validated(len(validations.passes), self._examples, metrics.tallies()))
        if self._validator.seen is not None and (validations.gained or not validations.keeps):
            self._validator.seen[0] = [(labels, by_label)]
        validations.forget()
        return validations.over

    @property
    def kept(self) -> int:
        """See RoundJudge."""
        best = self._monitor.validations.kept
        assert best is not None
        return best.pass_number + 1

    def end(self) -> None:
        """Say what was kept, and write what TUNE asks for."""
        if (note := note_of_stop(self._monitor.validations, "round", "version")) is not None:
            self._monitor.note(note)
        if self._judging is not None:
            self._validator.write(self._judging)


def batches_of(validator: Validator) -> Iterator[Batch]:
    """Give the batches of the rows held out, in order."""
    for number in range(validator.num_splits):
        yield from validator.batches(number)


def judge_of(prepared: Prepared, features: KeyedFeatures, numbers: Numbers, examples: int, monitor: Monitor) -> HeldRows | None:
    """Return what judges a package's rounds; None where no rows are held out."""
    if prepared.hold_out is None:
        return None
    return HeldRows(prepared, Validator(prepared, prepared.hold_out), features, numbers, examples, monitor)
