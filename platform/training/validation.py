"""Validation: rows held out of learning are scored after each pass, with the weights that shards hold then."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...warehouse.files import VersionFiles
from ...warehouse.package import write_tree
from ..errors import CheckpointError, DataError
from ..input.batches import Batch, Ladders, batches
from ..input.operator_inputs import offered_of
from ..input.scaling import Scales, scale
from ..input.source import row_of
from ..input.splits import chunk_rows
from ..ps.compiled.ladder import Ladder
from ..ps.messages import BatchId, Keys, Pulled
from ..ps.pieces import joined
from .beam_recall import BeamRecall
from .clauses.release import RELEASE
from .clauses.validate import VALIDATE
from .metrics.metrics import LabelMetrics, Tally
from .metrics.validations import GainOnLog, Validated, Validations
from .online.step import chosen, inputs_of, loss_step, score_step
from .policies.gains import Gains
from .row_files.saved import KeptPass, SavedShards

if TYPE_CHECKING:
    from ...warehouse.draft import Draft
    from .checkpoints.checkpointer import Checkpointer
    from .checkpoints.driver_state import DriverState
    from .monitor import Monitor
    from .prepared import Prepared, ValidationRows

BATCH_ROWS, SEARCHED_ROWS = 4096, 512

Floats = NDArray[np.float32]
Pull = Callable[[Keys, int], Pulled]


class Validator:
    """Scores rows held out with the weights of a training.

    Args:
        prepared: the training.

    Attributes:
        seen: of each split the labels and predictions that were measured last, where somebody asks for them.
        gain: what the model would earn on the rows that were measured last, where the release gate names it.
    """

    gain: GainOnLog | None = None

    def __init__(self, prepared: Prepared, rows: ValidationRows) -> None:
        gains = gains_of(prepared, rows)
        self.seen: dict[int, list[tuple[Floats, Floats]]] | None = (
            None if prepared.trial.judging is None and gains is None else {}
        )
        self._gains = gains
        self._columns, self._rows, self._encoder = prepared.columns, rows, prepared.encoder
        self._algorithm, self._tree, self._pieces = prepared.recipe.algorithm, prepared.tree, prepared.recipe.dense.cut
        self._num_labels = len(prepared.columns.labels) if self._algorithm.standardised else 0

    def measure(self, metrics: Callable[[], LabelMetrics], pulls: Sequence[Pull]) -> tuple[Tally, ...]:
        """Return the tallies of each label.

        Args:
            metrics: makes empty ones.
            pulls: give the parameters of unique keys, padded to a size; each is used by one thread.
        """
        splits, shares, search, reached = self._rows.splits, len(pulls), self._algorithm.tree, None
        if search is not None and self._tree is not None:
            reached = BeamRecall(search, self._tree, self._columns.layout.scalar.index(search.item), pulls[0])

        def part(number: int) -> LabelMetrics:
            found = metrics()
            for at in range(number, len(splits), shares):
                self._score(at, found, pulls[number], reached)
            return found

        with ThreadPoolExecutor(shares, thread_name_prefix="xpsql-validate") as pool:
            parts = list(pool.map(part, range(shares)))

        def merge(whole: LabelMetrics, other: LabelMetrics) -> LabelMetrics:
            whole.take(other.tallies())
            return whole

        found = functools.reduce(merge, parts, metrics()).tallies()
        require_rows(sum(tally.examples for tally in found))
        if self._gains is not None:
            self.gain = self._gains.gain(self._predictions()[0].astype(np.float64))
        return found

    def _predictions(self) -> Floats:
        """Return what was predicted last, float32[labels, n], in order of the rows."""
        assert self.seen is not None
        return np.concatenate([part for number in sorted(self.seen) for _, part in self.seen[number]], axis=1)

    def _score(self, number: int, metrics: LabelMetrics, pull: Pull, reached: BeamRecall | None) -> None:
        """Score a split."""
        seen: list[tuple[Floats, Floats]] = []
        if self.seen is not None:
            self.seen[number] = seen
        for batch in self.batches(number):
            pulled = pull(batch.keys, batch.size)
            by, batch = Scales.of(pulled.moments, self._num_labels), chosen(self._algorithm, batch, pulled)
            inputs = inputs_of(batch, scale(batch.dense, by.slots, len(batch.weight)), None)
            parameters = {**pulled.weights, **joined(self._pieces, pulled.dense)}
            if self._finds:
                predictions = np.array(loss_step(self._algorithm)(parameters, inputs))[: batch.examples]
                if reached is not None:
                    predictions[:, 1] = reached.of(batch, parameters, inputs)
            else:
                found = score_step(self._algorithm)(parameters, inputs, offered_of(batch, pulled.offered))
                predictions = by.restored(np.asarray(found.predictions)[: batch.examples])
            metrics.add(batch.label[:, : batch.examples], predictions.T)
            if self.seen is not None:
                seen.append((batch.label[:, : batch.examples].copy(), predictions.T.astype(np.float32)))

    @property
    def num_splits(self) -> int:
        return len(self._rows.splits)

    def batches(self, number: int) -> Iterator[Batch]:
        """Read a split, batch by batch."""
        scan, split, row = self._rows.scan, self._rows.splits[number], 0
        for table in scan.read(split, self._columns.learned, chunk_rows(BATCH_ROWS)):
            yield from self._batches(table, BatchId(split=number), functools.partial(row_of, scan, split, row))
            row += table.num_rows

    def write(self, path: Path) -> None:
        """Write the labels and predictions that were measured last, in order of the rows."""
        assert self.seen is not None
        labels = np.concatenate([part for number in sorted(self.seen) for part, _ in self.seen[number]], axis=1)
        predictions = self._predictions()
        with path.open("wb") as file:
            np.savez(file, labels=labels, predictions=predictions, measured=self._algorithm.measured)

    @property
    def _finds(self) -> bool:
        """Whether rows are measured by what a model that learns what was taken finds."""
        return self._algorithm.measured == "found"

    def _batches(self, table: pa.Table, first: BatchId, where: Callable[[int], str]) -> Iterator[Batch]:
        """Cut rows into batches; those by whose negatives an item is measured have these as they are learned with."""
        if not table.num_rows:
            return iter(())
        ladders = Ladders(Ladder(), Ladder())
        if self._finds:
            size = BATCH_ROWS if self._algorithm.tree is None else SEARCHED_ROWS
            return self._encoder.batches(self._encoder.chunk(table, where), size, first, ladders, 0)
        return batches(self._encoder.measured(table, where), BATCH_ROWS, first, ladders)


def gains_of(prepared: Prepared, rows: ValidationRows) -> Gains | None:
    """Return what tells what the model would earn on the rows, where the release gate names that."""
    release, algorithm = prepared.plan.clause(RELEASE), prepared.recipe.algorithm
    if release is None or not release.names_gain:
        return None
    return Gains(rows.scan, rows.splits, prepared.columns.labels[0], algorithm.classifier, chunk_rows(BATCH_ROWS))


def require_rows(examples: int) -> None:
    """Refuse to judge by no rows.

    Raises:
        DataError: there are none.
    """
    if not examples:
        raise DataError(f"{VALIDATE} has no rows to score: the query leaves none of those held out. Choose another share.")


def keep_pass(
    number: int,
    write: Callable[[VersionFiles], SavedShards],
    prepared: Prepared,
    draft: Draft,
    monitor: Monitor,
    checkpointer: Checkpointer,
) -> None:
    """Write what shards hold after a pass, the best so far, beside the version's rows, and let a checkpoint know of it.

    The best pass before goes after that: a training that goes on from an earlier checkpoint still finds it. That which a round
    begins with stays until the round is over.
    """
    files = draft.best(number)
    draft.clear_best(lambda kept: kept != number)
    held = write(files)
    stays = {number}
    if prepared.round is not None:
        if prepared.tree is not None:
            write_tree(files.tree, prepared.tree.stored)
        stays.add(int(prepared.round.begins.folder.name))
    draft.make_durable(files)
    monitor.kept = KeptPass(number, held)
    if monitor.checkpointed(checkpointer):
        draft.clear_best(stays.__contains__)


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
    validator = None if rows is None else Validator(prepared, rows)
    targets = prepared.targets.final
    for number in range(len(validations.passes), prepared.first_pass + prepared.passes):
        if validations.over:
            break
        over = passes.learn(number)
        if validator is None:
            if over:
                continue
            return None
        tallies = validator.measure(lambda: LabelMetrics(targets), passes.pulls())
        found = Validated(number, monitor.passes.examples, tallies, validator.gain)
        if over:
            monitor.validated(found)
        if prepared.trial.judging is not None and (not over or not validations.keeps or validations.gained):
            validator.write(prepared.trial.judging)
        if not over:
            return found
        if validations.keeps and validations.gained:
            passes.keep(number)
    kept = validations.kept
    if (validations.ended or not validations.drops) and (note := note_of_stop(validations, "pass", "version")) is not None:
        monitor.note(note)
    return kept


def note_of_stop(validations: Validations, unit: str, what: str) -> str | None:
    """Say that a training stopped early, and which pass is kept; None where it did not."""
    kept = validations.kept
    if kept is None or not validations.over:
        return None
    return (
        f"Stopped after {unit} {len(validations.passes)}: no gain in {validations.patience}. The {what} is that of {unit} "
        f"{kept.pass_number + 1}, with {validations.judge} {validations.value(kept):.6g} on the rows held out."
    )
