"""Validation: rows held out of learning are scored after each pass, with the weights that shards hold then."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Protocol

import numpy as np

from ...warehouse.files import VersionFiles
from ..errors import CheckpointError
from ..input.batches import Ladders, batches
from ..input.columns import Columns
from ..input.encoder import Encoder
from ..input.offered import offered_of
from ..input.scaling import Scales, scale
from ..input.source import row_of
from ..input.splits import chunk_rows
from ..ps.compiled.ladder import Ladder
from ..ps.messages import BatchId, Keys, Pulled
from ..ps.pieces import joined
from .hold_out import ValidationRows
from .metrics.metrics import LabelMetrics, Tally
from .metrics.validations import Validated, Validations
from .online.step import inputs_of, score_step
from .recipe import Recipe
from .row_files.saved import KeptPass, SavedShards

if TYPE_CHECKING:
    from ...warehouse.draft import Draft
    from .checkpoints.checkpointer import Checkpointer
    from .checkpoints.driver_state import DriverState
    from .monitor import Monitor
    from .prepared import Prepared

BATCH_ROWS = 4096

Pull = Callable[[Keys, int], Pulled]


class Validator:
    """Scores rows held out with the weights of a training.

    Args:
        recipe, columns, encoder: of the training.
    """

    def __init__(self, recipe: Recipe, columns: Columns, encoder: Encoder, rows: ValidationRows) -> None:
        self._columns, self._rows, self._encoder = columns, rows, encoder
        self._step, self._pieces = score_step(recipe.algorithm), recipe.dense.cut
        self._num_labels = len(columns.labels) if recipe.algorithm.standardised else 0

    def measure(self, metrics: Callable[[], LabelMetrics], pulls: Sequence[Pull]) -> tuple[Tally, ...]:
        """Return the tallies of each label.

        Args:
            metrics: makes empty ones.
            pulls: give the parameters of unique keys, padded to a size; each is used by one thread.
        """
        splits, shares = self._rows.splits, len(pulls)

        def part(number: int) -> LabelMetrics:
            found = metrics()
            for at in range(number, len(splits), shares):
                self._score(at, found, pulls[number])
            return found

        with ThreadPoolExecutor(shares, thread_name_prefix="xpsql-validate") as pool:
            parts = list(pool.map(part, range(shares)))

        def merge(whole: LabelMetrics, other: LabelMetrics) -> LabelMetrics:
            whole.take(other.tallies())
            return whole

        return functools.reduce(merge, parts, metrics()).tallies()

    def _score(self, number: int, metrics: LabelMetrics, pull: Pull) -> None:
        """Score a split."""
        scan, split, row, ladders = self._rows.scan, self._rows.splits[number], 0, Ladders(Ladder(), Ladder())
        for table in scan.read(split, self._columns.learned, chunk_rows(BATCH_ROWS)):
            if not table.num_rows:
                continue
            chunk = self._encoder.measured(table, functools.partial(row_of, scan, split, row))
            for batch in batches(chunk, BATCH_ROWS, BatchId(split=number), ladders):
                pulled = pull(batch.keys, batch.size)
                by = Scales.of(pulled.moments, self._num_labels)
                inputs = inputs_of(batch, scale(batch.dense, by.slots, len(batch.weight)), None)
                parameters = {**pulled.weights, **joined(self._pieces, pulled.dense)}
                found = self._step(parameters, inputs, offered_of(batch, pulled.offered))
                predictions = by.restored(np.asarray(found.predictions)[: batch.examples])
                metrics.add(batch.label[:, : batch.examples], predictions.T)
            row += table.num_rows


def keep_pass(
    number: int, write: Callable[[VersionFiles], SavedShards], draft: Draft, monitor: Monitor, checkpointer: Checkpointer
) -> None:
    """Write what shards hold after a pass, the best so far, beside the version's rows, and let a checkpoint know of it.

    The best pass before goes after that: a training that goes on from an earlier checkpoint still finds it.
    """
    files = draft.best(number)
    draft.clear_best(lambda kept: kept != number)
    monitor.kept = KeptPass(number, write(files))
    if monitor.checkpointed(checkpointer):
        draft.clear_best(lambda kept: kept == number)


def require_kept(state: DriverState, draft: Draft) -> None:
    """Require the rows of the best pass that a checkpoint knows of.

    Raises:
        CheckpointError: they are gone.
    """
    if state.kept is not None and not draft.best(state.kept.pass_number).folder.exists():
        raise CheckpointError(f"the rows of the best pass, {state.kept.pass_number + 1}, are gone")


class Passes(Protocol):
    """What learns pass by pass, and can keep what it has learned."""

    def learn(self, number: int) -> bool:
        """Begin a pass, and learn from its turns that are not finished; return whether it is over: not where the training
        pauses."""
        ...

    def pulls(self) -> Sequence[Pull]:
        """Return how parameters are pulled, one for each thread that scores."""
        ...

    def keep(self, number: int) -> None:
        """Write what shards hold after a pass, so that it can become the version's rows."""
        ...


def learn_by_pass(prepared: Prepared, monitor: Monitor, passes: Passes) -> Validated | None:
    """Learn pass by pass and score rows held out, if any, after each; stop when no pass gains any more.

    Returns:
        What the pass that is kept came to; where the training pauses within a pass, what it has come to there.
    """
    validations: Validations = monitor.validations
    rows = prepared.hold_out
    validator = None if rows is None else Validator(prepared.recipe, prepared.columns, prepared.encoder, rows)
    targets = prepared.targets.final
    for number in range(len(validations.passes), prepared.passes):
        if validations.over:
            break
        over = passes.learn(number)
        if validator is None:
            if over:
                continue
            return None
        tallies = validator.measure(lambda: LabelMetrics(targets), passes.pulls())
        found = Validated(number, monitor.passes.examples, tallies)
        if not over:
            return found
        monitor.validated(found)
        if validations.patience is not None and validations.gained:
            passes.keep(number)
    kept = validations.kept
    if validations.over and kept is not None:
        monitor.note(
            f"Stopped after pass {len(validations.passes)}: {validations.patience} without gain. The rows are those of pass "
            f"{kept.pass_number + 1}, whose loss on rows held out is {validations.loss(kept):.6g}."
        )
    return kept
