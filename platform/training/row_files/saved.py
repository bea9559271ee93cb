"""What the shards of a training hold, and what they have written."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ...ps.messages import Description
from ..metrics.metrics import weight_range


class SavedRows(NamedTuple):
    """What was written: the number of keys with rows, and the range of weights."""

    rows: int
    min_weight: float
    max_weight: float

    @property
    def weights(self) -> dict[str, float]:
        """The range of weights as ML.TRAINING_INFO names it."""
        return weight_range(self.min_weight, self.max_weight)


class SavedShards(NamedTuple):
    """What was written of the shards, and what they held then."""

    saved: SavedRows
    described: Description


class KeptPass(NamedTuple):
    """The rows of a pass that may become the version's, written beside them."""

    pass_number: int
    held: SavedShards


def total(shards: Iterable[Description]) -> Description:
    """Add up what several shards hold."""
    described = list(shards)
    names = dict.fromkeys(name for one in described for name in one.reports)
    return Description(
        rows=sum(one.rows for one in described),
        memory_bytes=sum(one.memory_bytes for one in described),
        now=max(one.now for one in described),
        reports={name: sum(one.reports.get(name, 0.0) for one in described) for name in names},
        moments=described[0].moments,
        low=min(one.low for one in described),
        high=max(one.high for one in described),
    )


def merged_saved(parts: Sequence[SavedRows]) -> SavedRows:
    """Merge what several shards have written."""
    return SavedRows(sum(s.rows for s in parts), min(s.min_weight for s in parts), max(s.max_weight for s in parts))
