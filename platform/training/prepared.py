"""Preparation: a training that is checked and whose input is known, before anything is learned."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Generator
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, NamedTuple

from ...warehouse.entries import Split
from ..engines.base import Scan
from ..input.batches import Batch
from ..input.columns import Columns
from ..input.dealing import Deal
from ..input.encoder import Encoder
from ..input.positives import Taking
from ..input.prefetch import Abreast, Ahead
from ..input.row_counts import RowCounts
from ..input.source import End, Source
from ..input.splits import chunk_batches
from ..input.timing import Clocks
from ..operators.step_rates import StepRates
from ..ps.watermarks import Turn, turns_of
from ..trees.tree import Tree
from .clauses.calibrate import CALIBRATE
from .clauses.evaluate import EVALUATE
from .clauses.validate import VALIDATE
from .estimates import estimated_features
from .metrics.metrics import Targets
from .metrics.observed import Observations
from .metrics.windows import Schedule, schedule_of
from .observations import asked_of
from .parallelism import Places
from .plan import Plan
from .recipe import Recipe
from .segment import Segment
from .trial import NO_TRIAL, Trial

if TYPE_CHECKING:
    from ...warehouse.version import Version


class ValidationRows(NamedTuple):
    """The rows that a training is validated on."""

    scan: Scan
    splits: list[Split]


class Round(NamedTuple):
    """A round of training and rebuilding after the first one, in which the tree of the items is another one; or the pass over
    rows that were held out.

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
        counts: how many rows of each split are learned.
        trial: what TUNE asks of it.
        rates: what optimizers' steps are multiplied by, by the number of the pass; see StepRates.
        choice: which of a solver's penalties it takes, where None tries all that rows held out may choose from; or the last
            round that a package learns, where None learns those of its options.
        on_shards: shards run the networks over vectors with ids, and workers get outputs.
    """

    plan: Plan
    columns: Columns
    scan: Scan
    splits: list[Split]
    batch_size: int
    parent: Version | None
    places: Places
    baseline: tuple[float, ...]
    counts: RowCounts = field(kw_only=True)
    passes: int = field(kw_only=True)
    tree: Tree | None = field(default=None, kw_only=True)
    round: Round | None = field(default=None, kw_only=True)
    taking: Taking | None = field(default=None, kw_only=True)
    trial: Trial = field(default=NO_TRIAL, kw_only=True)
    choice: int | None = field(default=None, kw_only=True)
    rates: tuple[float, ...] = field(default=(), kw_only=True)
    on_shards: bool = field(default=False, kw_only=True)

    @property
    def begins(self) -> Version | None:
        """What shards begin with; None: with nothing."""
        return self.parent if self.round is None else self.round.begins

    @property
    def first_pass(self) -> int:
        """The number of the first pass of its round."""
        return 0 if self.round is None else self.round.first_pass

    @property
    def batches(self) -> list[int]:
        """How many batches each split has in a pass."""
        return [-(-rows // self.batch_size) for rows in self.counts.rows]

    @property
    def pace(self) -> StepRates:
        """What optimizers' steps are multiplied by."""
        cooldown = self.plan.settings.cooldown or 0.0
        before = (0, *itertools.accumulate(self.batches)) if cooldown else (0, 1)
        return StepRates(self.rates, cooldown, self.first_pass + self.passes, before)

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
        """The number of examples in all passes, rows that are added included; None where rows were not counted one by one."""
        if not self.counts.exact:
            return None
        return self.counts.total * self.encoder.copies * self.passes * (1 + self.rebuilds)

    @property
    def rebuilds(self) -> int:
        """How many more rounds follow the first one, at most, each with another tree; none where no rows are held out."""
        tree = self.recipe.algorithm.tree
        return 0 if tree is None or self.plan.clause(VALIDATE) is None else tree.rebuild

    @property
    def drops(self) -> bool:
        """Whether a pass without gain drops the rates, and the training goes on from the best one."""
        return self.plan.settings.plateau is not None and self.hold_out is not None

    @property
    def chooses(self) -> bool:
        """Whether it is solved by several penalties, of which rows held out choose one."""
        return len(self.recipe.algorithm.learns.path) > 1 and self.hold_out is not None

    @property
    def encoder(self) -> Encoder:
        """What makes batches of rows."""
        settings = self.plan.settings
        items = None if self.taking is None else self.taking.items
        common = settings.compact == "auto"
        return Encoder(self.columns, self.recipe.algorithm, settings.seed, common, self.tree, items, not self.on_shards)

    @property
    def targets(self) -> Targets:
        """What predictions are measured against; with groups where windows have them."""
        algorithm = self.recipe.algorithm
        return Targets.of(self.columns.labels, algorithm.measured, self.columns.grouped, algorithm.late)

    @property
    def asked(self) -> Observations:
        """What it observes of its batches beside metrics."""
        calibrate, algorithm = self.plan.clause(CALIBRATE), self.recipe.algorithm
        kept = self.plan.settings.negatives_kept
        return asked_of(algorithm, self.columns, calibrate, self.parent, self.batches, self.counts.total, kept)

    @property
    def schedule(self) -> Schedule | None:
        """The windows of its evaluation."""
        return schedule_of(self.plan.clause(EVALUATE), self.batches)

    @property
    def counts_by_pass(self) -> bool:
        """Whether a pass begins when the one before is over, since operators count by pass."""
        return self.passes > 1 and any(programs.chain.per_pass for programs in self.recipe.programs)

    @property
    def idle_operators(self) -> list[str]:
        """The names of operators that act from the second pass on, where a first version has one."""
        chains = [programs.chain for programs in self.recipe.programs] if self.passes == 1 and self.parent is None else []
        return list(dict.fromkeys(name for chain in chains for name in chain.later))

    @property
    def ends_passes(self) -> bool:
        """Whether something is done to rows when a pass is over."""
        return self.recipe.updates is not None and bool(self.recipe.updates.of_passes)

    @property
    def by_pass(self) -> bool:
        """Whether a pass begins when the one before is over."""
        return self.hold_out is not None or self.counts_by_pass or self.ends_passes

    @property
    def pauses_after(self) -> int | None:
        """The batches, those of all passes, after which it pauses; None: it learns to the end."""
        if self.trial.pause is None:
            return None
        return math.ceil(sum(self.batches) * self.passes * self.trial.pause)

    @property
    def turns(self) -> list[Turn]:
        """The splits of all passes of its round, in order of learning."""
        return turns_of(len(self.splits), self.passes, self.first_pass)

    def features(self, most: float = math.inf) -> int:
        """Return about how many features it learns, of a slot at most so many."""
        return estimated_features(self.counts.total, self.scan, self.splits, self.columns, self.encoder, most)

    def source(self, epoch: int) -> Source:
        """Return the input, batch by batch, for pushes of an epoch."""
        columns, ladders = self.columns.learned, self.recipe.ladders
        begun = self.parent if self.first_pass else self.begins
        before = begun.manifest.learned.examples_total if begun else 0
        return Source(self.scan, self.splits, self.encoder, columns, self.batch_size, ladders, epoch, before)

    def reading(self, source: Source, deal: Deal, clocks: Clocks, threads: int) -> Ahead[Batch | End] | Abreast[Batch | End]:
        """Return what reads ahead for a worker on so many threads: on one where the statement says how far."""
        if threads < 2 or self.plan.settings.read_ahead is not None:
            return self.ahead(lambda: source.batches(deal, clocks.reading))
        return Abreast(lambda: source.pieces(deal, clocks), threads, chunk_batches(self.batch_size))

    def ahead(self, make: Callable[[], Generator[Batch | End, None, None]]) -> Ahead[Batch | End]:
        """Return what reads ahead for a worker on one thread."""
        return Ahead(make, self.plan.settings.read_ahead, chunk_batches(self.batch_size))
