"""What a training observes of its batches beside metrics, as it learns from them: tallies of calibrators, a
profile, residuals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .calibrate import Calibrating, Calibration, OctaveTally
from .profile import Profile, Profiled, ProfileTally, mixed
from .ranking import ece_of
from .residuals import Residuals, ResidualTally

if TYPE_CHECKING:
    from ...input.batches import Batch

Floats = NDArray[np.float32]


class Observations(NamedTuple):
    """What is to be observed.

    Attributes:
        calibration: None: predictions stay as they are.
        before: of each split, how many batches the splits before it have.
        profiled: None: no profile is made.
        every: of how many batches of a split one is profiled.
        residuals: of how many labels residuals are tallied; 0: of none.
        signed: residuals are labels less predictions, and not how far apart both are.
    """

    calibration: Calibration | None = None
    before: Sequence[int] = ()
    profiled: Profiled | None = None
    every: int = 1
    residuals: int = 0
    signed: bool = False


class ObservedTallies(NamedTuple):
    """What was observed, as it travels and is kept in checkpoints."""

    calibration: tuple[OctaveTally, ...] = ()
    profile: ProfileTally | None = None
    residuals: tuple[ResidualTally, ...] = ()

    def of_labels(self, lines: list[int]) -> ObservedTallies:
        """Return what was observed of some labels, by their places."""
        calibration = tuple(one._replace(bins=one.bins[lines], values=one.values[lines]) for one in self.calibration)
        profile = self.profile
        if profile is not None:
            profile = profile._replace(predictions=profile.predictions[lines], sums=profile.sums[lines])
        residuals = tuple(one._replace(counts=one.counts[lines]) for one in self.residuals)
        return ObservedTallies(calibration, profile, residuals)


NOTHING = ObservedTallies()


class Observed:
    """Observes batches; threads may share it.

    Attributes:
        calibrating: None: nothing is calibrated.
        profile: None: none is made.
        residuals: None: none are tallied.
    """

    def __init__(self, asked: Observations) -> None:
        self.calibrating = None if asked.calibration is None else Calibrating(asked.calibration, asked.before)
        self.profile = None if asked.profiled is None else Profile(asked.profiled)
        self.residuals = Residuals(asked.residuals, asked.before, asked.signed) if asked.residuals else None
        self._every = asked.every

    def observe(self, batch: Batch, predictions: Floats, also: Observed | None = None) -> Floats:
        """Take in a batch that was predicted, float32[labels, n], before it was learned from, and return the predictions that
        metrics see.

        Args:
            also: takes in the same.
        """
        shown = self._calibrated(batch, predictions, also)
        if self.residuals is not None and batch.id.pass_number == 0 and batch.fresh and not batch.counted:
            seen = self.residuals.observe(batch, predictions)
            for own_residuals in (self.residuals, None if also is None else also.residuals):
                if own_residuals is not None:
                    own_residuals.see(*seen)
        if self.profile is not None and self._is_profiled(batch):
            number = int(mixed(np.array([batch.id.split << 32 | batch.id.batch], np.uint64))[0])
            own = also.profile if also is not None else self.profile  # which is told to the driver
            if own is not None:
                own.add(batch, shown, number)
        return shown

    def _is_profiled(self, batch: Batch) -> bool:
        return batch.id.pass_number == 0 and batch.id.batch % self._every == 0 and batch.fresh and not batch.counted

    def _calibrated(self, batch: Batch, predictions: Floats, also: Observed | None) -> Floats:
        if self.calibrating is None:
            return predictions
        shown, seen = self.calibrating.observe(batch, predictions)
        if seen is not None:
            self.calibrating.see(seen)
            if also is not None and also.calibrating is not None:
                also.calibrating.see(seen)
        return shown

    def tallies(self) -> ObservedTallies:
        """Return what was observed."""
        calibration = () if self.calibrating is None else self.calibrating.tallies()
        residuals = () if self.residuals is None else self.residuals.tallies()
        return ObservedTallies(calibration, None if self.profile is None else self.profile.tally(), residuals)

    def go_on(self, before: ObservedTallies) -> None:
        """Go on from what was observed until a checkpoint, and forget all else."""
        if self.calibrating is not None:
            self.calibrating = self.calibrating.anew()
        if self.profile is not None:
            self.profile = Profile(self.profile.asked)
        if self.residuals is not None:
            self.residuals = self.residuals.anew()
        self.take(before)

    def take(self, other: ObservedTallies) -> None:
        """Merge another's.

        Raises:
            TrainingError: something else was observed there.
        """
        if self.calibrating is not None:
            self.calibrating.take(other.calibration)
        if self.profile is not None and other.profile is not None:
            self.profile.take(other.profile)
        if self.residuals is not None:
            self.residuals.take(other.residuals)

    def raw(self, labels: Sequence[str]) -> dict[str, dict[str, float | None]]:
        """Return by label what predictions of the first pass are before they are calibrated; empty where none are."""
        if self.calibrating is None:
            return {}
        found: dict[str, dict[str, float | None]] = {}
        for number, label in enumerate(labels):
            bins = self.calibrating.whole(number)
            clicks = bins.labels.sum()
            found[label] = {
                "raw.pcopc": float(bins.predictions.sum() / clicks) if clicks > 0 else None,
                "raw.ece": ece_of(bins.rows, bins.labels, bins.predictions),
            }
        return found
