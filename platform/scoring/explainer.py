"""Predictions with attributions: the slots that add most to a score, or take most from it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from ...algorithms.calibration import log_odds, sigmoid
from ...warehouse.entries import Split
from ..input.batches import Batch, Ladders
from ..input.columns import columns_in
from ..ps.compiled.ladder import Ladder
from ..ps.messages import Keys, Pulled
from ..training.profiles.calibrators import Calibrators
from ..training.recipe import algorithm_of
from .attributions import Attribute, Attributed, MeanScores, attribution
from .rows import write_rows
from .scorer import Padding, Request, Scored
from .scorer_cache import scorer_of

if TYPE_CHECKING:
    from ...warehouse.version import Version

BATCH_SIZES = (1, 16, 128, 1024)  # each feature of each example has a row of its own
CALIBRATION = "(calibration)"
ATTRIBUTIONS = pa.list_(pa.struct([("feature", pa.string()), ("attribution", pa.float64())]))
ADDED = (
    pa.field("top_feature_attributions", ATTRIBUTIONS),
    pa.field("baseline_prediction_value", pa.float64()),
    pa.field("prediction_value", pa.float64()),
    pa.field("approximation_error", pa.float64()),
)


def explained_fields(labels: Sequence[str]) -> list[pa.Field]:
    """Return the columns of an explanation, which follow the input's and the predictions."""
    return [*([pa.field("label", pa.string())] if len(labels) > 1 else []), *ADDED]


class Explainer:
    """Scores rows with a version, and attributes the scores to slots.

    Args:
        pull: see Scorer.
        top: attributions of a row, at most.
        reference: what they are measured from; see Request.

    Raises:
        StatementError, ModelError: see Scorer.
    """

    def __init__(self, version: Version, pull: Callable[[Keys, int], Pulled], top: int, reference: MeanScores | None) -> None:
        self._reference = reference
        shared = Ladders(Ladder(), Ladder())
        self._scorer = scorer_of(version, pull, Padding(BATCH_SIZES, lambda batch: shared))
        columns = columns_in(version)
        self._labels, self._slots, self._top = columns.labels, pa.array(columns.layout.slots, pa.string()), top
        if self._scorer.calibrators is not None:
            self._slots = pa.concat_arrays([self._slots, pa.array([CALIBRATION])])
        self._attribute = calibrated(
            attribution(version, algorithm_of(version.manifest), columns, pull, self._scorer.scales), self._scorer.calibrators
        )

    def write(self, request: Request, splits: Sequence[Split], path: Path) -> Iterator[int]:
        """Write the rows of some splits with their explanations, and yield how many as they are written; of several labels a
        row for each."""

        def pieces() -> Iterator[tuple[pa.Table, list[pa.Array], int]]:
            for rows, encoded in self._scorer.pieces(request, splits):
                found = [self._attribute(batch) for batch in encoded]
                yield *self._explained(self._scorer.said(rows, encoded), found), rows.num_rows

        return write_rows(pieces(), request.schema, request.carried, path)

    def mean(self, rows: Iterable[pa.Table]) -> tuple[MeanScores | None, int]:
        """Return the means of some rows, None of none, and how many they are.

        Args:
            rows: see Scorer.predict.
        """
        found = [self._attribute(batch) for table in rows if table.num_rows for batch in self._scorer.encoded(table)]
        if not found:
            return None, 0
        score, by_slot = (np.concatenate([getattr(one, name) for one in found]) for name in ("score", "by_slot"))
        return MeanScores(score.mean(axis=0), by_slot.mean(axis=0)), len(score)

    def _explained(self, scored: Scored, found: Sequence[Attributed]) -> tuple[pa.Table, list[pa.Array]]:
        """Return the columns carried, and those after them."""
        whole = Attributed(*(np.concatenate(arrays) for arrays in zip(*found, strict=True)))
        shown = whole if self._reference is None else whole.against(self._reference)
        columns = [top_attributions(shown.by_slot, self._slots, self._top)]
        columns += [pa.array(values.reshape(-1)) for values in (shown.baseline, shown.score, whole.error)]
        num_labels = len(self._labels)
        if num_labels == 1:
            return scored.rows, [*scored.columns, *columns]
        again = np.repeat(np.arange(len(scored.predictions)), num_labels)
        names = pa.array(self._labels).take(np.tile(np.arange(num_labels), len(scored.predictions)))
        return scored.rows.take(again), [*(column.take(again) for column in scored.columns), names, *columns]


def calibrated(attribute: Attribute, calibrators: Calibrators | None) -> Attribute:
    """Return a function that tells what calibration adds to scores, too, last of the slots."""
    if calibrators is None:
        return attribute

    def attributed(batch: Batch) -> Attributed:
        found = attribute(batch)
        score = log_odds(calibrators.of(sigmoid(found.score), batch))
        return Attributed(found.baseline, score, np.append(found.by_slot, (score - found.score)[:, :, None], axis=2))

    return attributed


def top_attributions(by_slot: np.ndarray, slots: pa.Array, top: int) -> pa.Array:
    """Return the attributions of the largest size, the largest first, of each example and label.

    Args:
        by_slot: float64[n, num_labels, num_slots].
        slots: their names.
    """
    flat = by_slot.reshape(-1, len(slots))
    order = np.argsort(-np.abs(flat), axis=1, kind="stable")[:, :top]
    sizes = np.take_along_axis(flat, order, axis=1).reshape(-1)
    structs = pa.StructArray.from_arrays([slots.take(order.reshape(-1)), pa.array(sizes)], fields=list(ATTRIBUTIONS.value_type))
    offsets = np.arange(len(flat) + 1, dtype=np.int32) * order.shape[1]
    return pa.ListArray.from_arrays(offsets, structs).cast(ATTRIBUTIONS)
