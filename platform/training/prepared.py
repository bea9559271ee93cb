"""Preparation: a training that is checked and whose input is known, before anything is learned."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ...warehouse.manifest import Split
from ..engines.base import Engine, Scan
from ..engines.tasks import Tasks
from ..errors import StatementError
from ..input.batches import Batch
from ..input.columns import Classes, Columns
from ..input.encoder import Encoder
from ..input.holdout import HeldOut, beginning_of
from ..input.prefetch import Ahead
from ..input.roles import LABEL
from ..input.source import End, Source
from ..input.splits import check_labels, check_weights, chunk_batches, is_empty, vector_dims
from ..input.taken import Taking
from ..ps.watermarks import Turn, turns_of
from ..quoting import quoted
from ..trees.tree import Tree
from .baseline import baseline_of
from .estimates import estimated_bytes, estimated_features
from .hold_out import ValidationRows, divided, hold_out
from .metrics.metrics import Targets
from .metrics.windows import Schedule, schedule_of
from .parallelism import Places, decide
from .plan import Plan
from .recipe import Recipe, recipe_of
from .row_files.rows import check_continues
from .segment import Segment

if TYPE_CHECKING:
    from ...warehouse.version import Version

MOST_CLASSES = 1000


class Round(NamedTuple):
    """A round of training and rebuilding after the first one, in which the tree of the items is another one.

    Attributes:
        first_pass: the number of its first pass.
        begins: what shards begin with: the rows of the best pass before.
    """

    first_pass: int
    begins: Version


@dataclass(frozen=True)
class TrainingInput:
    """The input of a training, as it is sent to tasks: all but what each process makes for itself.

    Attributes:
        batch_size: examples per update; passes: how often the rows are read.
        parent: the version that it continues.
        places: how many shards and workers it has.
        baseline: see baseline_of; empty where it continues.
        tree: of its items, where its algorithm keeps one and it has begun.
        round: the round that it is in; None: the first, or the only one.
        taking: what the statement says of rows before they are learned from; None: nothing.
    """

    plan: Plan
    columns: Columns
    scan: Scan
    splits: list[Split]
    batch_size: int
    parent: Version | None
    places: Places
    baseline: tuple[float, ...]
    passes: int = field(kw_only=True)
    tree: Tree | None = field(default=None, kw_only=True)
    round: Round | None = field(default=None, kw_only=True)
    taking: Taking | None = field(default=None, kw_only=True)

    @property
    def begins(self) -> Version | None:
        """What shards begin with; None: with nothing."""
        return self.parent if self.round is None else self.round.begins

    @property
    def first_pass(self) -> int:
        """The number of the first pass of its round."""
        return 0 if self.round is None else self.round.first_pass

    @property
    def input(self) -> TrainingInput:
        """The input alone, of what is prepared."""
        return TrainingInput(**{one.name: getattr(self, one.name) for one in fields(TrainingInput)})

    def with_recipe(self, recipe: Recipe, hold_out: ValidationRows | None, segment: Segment | None) -> Prepared:
        """Return it with what this process makes of it; see Prepared."""
        return Prepared(**vars(self), recipe=recipe, hold_out=hold_out, segment=segment)


@dataclass(frozen=True)
class Prepared(TrainingInput):
    """A prepared training.

    Attributes:
        hold_out: the rows that VALIDATE holds out; None without, and where workers learn.
        segment: what it takes of a stream, where it learns from one; None where workers learn.
    """

    recipe: Recipe
    hold_out: ValidationRows | None
    segment: Segment | None

    @property
    def num_examples(self) -> int | None:
        """The number of examples in all passes, rows that are added included, None where a filter decides."""
        rows = self.scan.num_rows if isinstance(self.scan, HeldOut) else sum(split.rows for split in self.splits)
        if not (self.scan.scan if isinstance(self.scan, HeldOut) else self.scan).exact:
            return None
        return rows * self.encoder.copies * self.passes * (1 + self.rebuilds)

    @property
    def rebuilds(self) -> int:
        """How many more rounds follow the first one, at most, each with another tree; none where no rows are held out."""
        tree = self.recipe.algorithm.tree
        return 0 if tree is None or self.plan.validate is None else tree.rebuild

    @property
    def encoder(self) -> Encoder:
        """What makes batches of rows."""
        settings = self.plan.settings
        items = None if self.taking is None else self.taking.items
        return Encoder(self.columns, self.recipe.algorithm, settings.seed, settings.compact == "auto", self.tree, items)

    @property
    def targets(self) -> Targets:
        """What predictions are measured against; with groups where windows have them."""
        algorithm = self.recipe.algorithm
        return Targets.of(self.columns.labels, algorithm.measured, self.columns.grouped, algorithm.late)

    @property
    def schedule(self) -> Schedule | None:
        """The windows of its evaluation."""
        return schedule_of(self.plan.evaluate, self.splits, self.batch_size)

    @property
    def counts_by_pass(self) -> bool:
        """Whether a pass begins when the one before is over, since operators count by pass."""
        return self.passes > 1 and any(programs.chain.per_pass for programs in self.recipe.programs)

    @property
    def pauses_after(self) -> int | None:
        """The batches, those of all passes, after which it pauses; None: it learns to the end."""
        if self.plan.pause is None:
            return None
        batches = sum(-(-split.rows // self.batch_size) for split in self.splits) * self.passes
        return math.ceil(batches * self.plan.pause)

    @property
    def turns(self) -> list[Turn]:
        """The splits of all passes of its round, in order of learning."""
        return turns_of(len(self.splits), self.passes, self.first_pass)

    def source(self, epoch: int) -> Source:
        """Return the input, batch by batch, for pushes of an epoch."""
        columns, ladders = self.columns.learned, self.recipe.ladders
        before = self.parent.manifest.examples_total if self.parent else 0
        return Source(self.scan, self.splits, self.encoder, columns, self.batch_size, ladders, epoch, before)

    def ahead(self, make: Callable[[], Generator[Batch | End, None, None]]) -> Ahead[Batch | End]:
        """Return what reads ahead for a worker."""
        return Ahead(make, self.plan.settings.read_ahead, chunk_batches(self.batch_size))


def prepare(
    plan: Plan,
    columns: Columns,
    scan: Scan,
    parent: Version | None,
    places: Places,
    engine: Engine,
    folder: Path,
    segment: Segment | None,
    taking: Taking | None = None,
) -> Prepared:
    """Look at the input; the parts are made again for vectors, whose lengths are known from it.

    Args:
        places: most of them.
        folder: where rows that VALIDATE ON (query) gives are staged.
        segment: of the stream that is learned from.
        taking: what was done to the rows of `scan`.

    Raises:
        StatementError: it is empty, its labels cannot be learned from, or the parent cannot go on with the lengths of vectors.
        DataError: a file cannot be read.
    """
    splits = [split for split in scan.splits() if split.rows]
    if is_empty(scan, splits):
        raise StatementError("The query returns no rows; there is nothing to learn from.")
    every = [split.rows for split in splits]
    if plan.beginning is not None:
        scan, splits = beginning_of(scan, splits, plan.beginning)
    if plan.validate is not None and plan.validate.share is not None:
        scan = divided(plan.validate, scan, splits)
    columns = vector_dims(columns, scan, splits)
    recipe = recipe_of(plan, columns)
    if parent is not None:
        check_continues(recipe, parent)
    if recipe.algorithm.classifier:
        check_labels(scan, splits, columns.labels)
    check_weights(scan, splits, columns.weight if plan.stream is None else None)
    sizes = decide(plan, recipe.algorithm, every, places, bool(columns.offered), engine.tasks)
    hold = hold_out(plan, engine, scan, splits, columns, folder, taking)
    baseline = baseline_of(plan, recipe, columns, scan, splits) if parent is None else ()
    given = TrainingInput(
        plan, columns, scan, splits, sizes.batch_size, parent, sizes.places, baseline, passes=sizes.passes, taking=taking
    )
    return given.with_recipe(recipe, hold, segment)


def with_classes(plan: Plan, columns: Columns, scan: Scan, engine: Engine, folder: Path) -> Columns:
    """Return the columns with the classes of the label, in order, where they are not known: one query reads that column.

    Args:
        folder: where the rows are that were staged.

    Raises:
        StatementError: there are fewer than two, or too many.
    """
    if columns.classes is None or columns.classes.known:
        return columns
    (label,) = columns.labels
    if plan.stream is not None:
        raise StatementError(
            f"{LABEL} {label} has classes, and those of a stream are not known before it ends. TRAIN on a table that has all "
            "of them, then CONTINUE from the stream.",
            subject=LABEL,
        )
    rows = f"SELECT * FROM parquet.{quoted(str(folder.absolute()))}" if scan.staged else plan.query
    distinct = f"SELECT DISTINCT {quoted(label)} FROM ({rows}) LIMIT {MOST_CLASSES + 2}"  # NULL may be one of them
    found = sorted(value for value in engine.reader(distinct).read_all().column(0).to_pylist() if value is not None)
    if not 2 <= len(found) <= MOST_CLASSES:
        what = f"only {found[0]!r}" if len(found) == 1 else "NULL alone" if not found else f"more than {MOST_CLASSES:,} values"
        remedy = (
            "An id is no class: learn what goes with what by two_tower, slrm or xsvd, or join rare values to one in the query"
            if found[2:]
            else "Look at what the query makes of it, or whether its filter leaves the others out"
        )
        raise StatementError(f"{LABEL} {label} has {what}; a label has 2 to {MOST_CLASSES:,} classes. {remedy}.", subject=LABEL)
    return replace(columns, classes=Classes(tuple(found), columns.classes.type))


def check_encryption(plan: Plan) -> None:
    """Refuse to encrypt on an engine's tasks what cannot be.

    Raises:
        StatementError: the package that it takes is not installed.
    """
    if not plan.settings.encrypt:
        return
    from ..ps.transport.tls import check_installed  # few trainings need it

    check_installed()


def check_memory(tasks: Tasks, prepared: Prepared) -> None:
    """Refuse shards that an engine's tasks have no memory for.

    Raises:
        StatementError: says what is needed, what there is, and the setting to raise.
    """
    granted = tasks.memory_bytes()
    if granted is None or not prepared.places.shards:
        return
    features = estimated_features(prepared.scan, prepared.splits, prepared.columns, prepared.encoder)
    needed = estimated_bytes(prepared.recipe, features) // prepared.places.shards
    if needed > granted:
        raise StatementError(
            f"A shard needs about {needed >> 20} MiB for its rows; {tasks.words.engine} "
            f"{tasks.words.memory.format(f'{granted >> 20} MiB')}. {tasks.words.more_memory}, or use more shards than "
            f"{prepared.places.shards}."
        )
