"""Validation: rows held out of learning are scored after each pass, with the weights that shards hold then."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from ...algorithms.base import Algorithm, Online, Supervised
from ...warehouse.files import VersionFiles
from ...warehouse.manifest import Split
from ..engines.base import Engine, Scan, staged
from ..errors import CheckpointError, StatementError
from ..input.batches import Ladders, batches
from ..input.columns import Columns
from ..input.encoder import Encoder
from ..input.holdout import HeldOut, held_out
from ..input.offered import offered_of
from ..input.scaling import Scales, scale
from ..input.source import row_of
from ..input.splits import chunk_rows
from ..ps.ladder import Ladder
from ..ps.messages import BatchId, Keys, Pulled
from .metrics.metrics import LabelMetrics, Tally
from .metrics.validate import Validate
from .metrics.validations import Validated, Validations
from .online.step import inputs_of, score_step
from .plan import PATIENCE, VALIDATE, Plan
from .recipe import Recipe
from .rows import Held, Kept

if TYPE_CHECKING:
    from ...warehouse.draft import Draft
    from .checkpoints.checkpointer import Checkpointer
    from .checkpoints.driver_state import DriverState
    from .monitor import Monitor
    from .prepared import Prepared

BATCH_ROWS = 4096

Pull = Callable[[Keys, int], Pulled]


class ValidationRows(NamedTuple):
    """The rows that a training is validated on."""

    scan: Scan
    splits: list[Split]


def check_validation(plan: Plan, algorithm: Algorithm) -> None:
    """Refuse a validation that the algorithm cannot have, and patience without one.

    Raises:
        StatementError: names the clause or option.
    """
    settings, name = plan.settings, plan.algorithm.name
    if plan.validate is None:
        if settings.patience is not None:
            message = f"{PATIENCE} = {settings.patience} needs rows to judge passes by. Add VALIDATE ON 0.1, or leave it out."
            raise StatementError(message, subject=PATIENCE)
        return
    if settings.patience is not None and settings.passes == 1:
        message = f"{PATIENCE} = {settings.patience} has no effect on one pass. Set passes above 1, or leave it out."
        raise StatementError(message, subject=PATIENCE)
    if plan.stream is not None:
        message = f"{VALIDATE} holds rows out of a query that ends, and a stream does not. Judge it by EVALUATE EVERY."
        raise StatementError(message, subject=VALIDATE)
    learns = algorithm.learns
    if not isinstance(learns, Online):
        raise StatementError(
            f"{VALIDATE} scores rows after each pass; {name} learns all examples at once. Keep rows apart in the query, and "
            "measure them by ML.EVALUATE.",
            subject=VALIDATE,
        )
    if not isinstance(learns.goal, Supervised) or any(augment.copies > 1 for augment in learns.augment):
        what = "adds rows that were not taken" if isinstance(learns.goal, Supervised) else "learns without labels"
        raise StatementError(
            f"{VALIDATE} compares predictions with labels, and {name} {what}. Leave it out, and measure by ML.EVALUATE.",
            subject=VALIDATE,
        )


def divided(validate: Validate, scan: Scan, splits: Sequence[Split]) -> HeldOut:
    """Return the rows of a scan that are left to learn from.

    Raises:
        StatementError: none is held out, or none is left.
    """
    assert validate.share is not None  # else another query gives them
    learned = held_out(scan, splits, validate.share, validate.last)
    held, left = learned.others.num_rows, learned.num_rows
    if not held or not left:
        raise StatementError(
            f"{VALIDATE} {validate.text} holds {held:,} of {held + left:,} rows out and leaves {left:,}: both must be some. "
            "Choose another share.",
            subject=VALIDATE,
        )
    return learned


def hold_out(
    plan: Plan, engine: Engine, scan: Scan, splits: list[Split], columns: Columns, folder: Path
) -> ValidationRows | None:
    """Return the rows that VALIDATE holds out; None without.

    Args:
        scan: of the rows that are learned.
        folder: where a query's rows are staged.
    """
    if plan.validate is None:
        return None
    if isinstance(scan, HeldOut):
        return ValidationRows(scan.others, splits)
    assert plan.validate.query is not None  # else the scan is divided
    apart = scan_apart(engine, plan.validate.query, scan.schema, columns, folder)
    return ValidationRows(apart, [split for split in apart.splits() if split.rows])


def scan_apart(engine: Engine, query: str, learned: pa.Schema, columns: Columns, folder: Path) -> Scan:
    """Return how the query of VALIDATE is read.

    Raises:
        StatementError: it cannot run, returns no rows, or lacks a column that is learned from, in the type that it has there.
    """
    found = engine.scan(query)
    there = {field.name.lower(): field.type for field in found.schema}
    for name in columns.learned:
        wanted, came = learned.field(name).type, there.get(name.lower())
        if came != wanted:
            what = "lacks it" if came is None else f"returns {came}"
            raise StatementError(
                f"{VALIDATE} ON (query) must return the column {name} as {wanted}, as the training's query does; it {what}.",
                subject=VALIDATE,
            )
    scan = staged(engine, query, found, folder)
    if not any(split.rows for split in scan.splits()):
        raise StatementError(f"{VALIDATE} ON (query) returns no rows; there is nothing to validate on.", subject=VALIDATE)
    return scan


class Validator:
    """Scores rows held out with the weights of a training.

    Args:
        recipe, columns, encoder: of the training.
    """

    def __init__(self, recipe: Recipe, columns: Columns, encoder: Encoder, rows: ValidationRows) -> None:
        self._columns, self._rows, self._encoder = columns, rows, encoder
        self._step = score_step(recipe.algorithm)
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
                found = self._step({**pulled.weights, **pulled.dense}, inputs, offered_of(batch, pulled.offered))
                predictions = by.restored(np.asarray(found.predictions)[: batch.examples])
                metrics.add(batch.label[:, : batch.examples], predictions.T)
            row += table.num_rows


def keep_pass(
    number: int, write: Callable[[VersionFiles], Held], draft: Draft, monitor: Monitor, checkpointer: Checkpointer
) -> None:
    """Write what shards hold after a pass, the best so far, beside the version's rows, and let a checkpoint know of it.

    The best pass before goes after that: a training that goes on from an earlier checkpoint still finds it.
    """
    files = draft.best(number)
    draft.clear_best(lambda kept: kept != number)
    monitor.kept = Kept(number, write(files))
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

    def learn(self, number: int) -> None:
        """Learn from the turns of a pass that are not finished."""
        ...

    def pulls(self) -> Sequence[Pull]:
        """Return how parameters are pulled, one for each thread that scores."""
        ...

    def keep(self, number: int) -> None:
        """Write what shards hold after a pass, so that it can become the version's rows."""
        ...


def learn_by_pass(prepared: Prepared, rows: ValidationRows, monitor: Monitor, passes: Passes) -> None:
    """Learn pass by pass and score the rows held out after each; stop when no pass gains any more."""
    validations: Validations = monitor.validations
    validator = Validator(prepared.recipe, prepared.columns, prepared.encoder, rows)
    targets = prepared.targets.ungrouped
    for number in range(len(validations.passes), prepared.plan.settings.passes):
        if validations.over:
            break
        passes.learn(number)
        tallies = validator.measure(lambda: LabelMetrics(targets), passes.pulls())
        monitor.validated(Validated(number, monitor.passes.examples, tallies))
        if validations.patience is not None and validations.gained:
            passes.keep(number)
    kept = validations.kept
    if validations.over and kept is not None:
        monitor.note(
            f"Stopped after pass {len(validations.passes)}: {validations.patience} without gain. The rows are those of pass "
            f"{kept.pass_number + 1}, whose loss on rows held out is {validations.loss(kept):.6g}."
        )
