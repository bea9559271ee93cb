"""What a training statement says, checked: the input of `train`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..dependent import BATCHES, COMMON, when
from ..errors import Subject
from ..input.crossed.terms import Term
from ..input.roles import Roles
from ..input.streams.base import StreamQuery
from ..input.transform import Transform
from ..operators.duration import duration_seconds
from ..options import named_columns, option
from ..parts import AnyPart
from .checkpoints.begins import Beginning
from .metrics.evaluate import Evaluate
from .metrics.gate import Condition
from .metrics.validate import Validate
from .metrics.validations import HIGHER, LOWER
from .resident.publish import Publish

OPERATORS, EVALUATE, VALIDATE, RELEASE = map(Subject, ("OPERATORS", "EVALUATE", "VALIDATE", "RELEASE"))
PASSES, BASE_RATE, PATIENCE, DELAY, SYNC, HELD_OUT, PATIENCE_BY = (
    Subject("WITH", option=name) for name in ("passes", "base_rate", "patience", "delay", "sync", "held_out", "patience_by")
)
ALL, REST, NONE = "all", "rest", "none"


@dataclass(frozen=True)
class Settings:
    """The options of WITH."""

    batch_size: int | None = option(
        None,
        "examples per update; by default 64, from 50,000 rows on 256, from 200,000 on 1024; xftrl, svm, linear_regression and "
        "logistic_regression take 2048 from 500,000 on, 4096 from 1,000,000, 8192 from 2,000,000, 16384 from 4,000,000; with "
        "more than four workers the rows that four of them would have count",
        minimum=1,
        maximum=1 << 20,
    )
    passes: int | None = option(
        None,
        "times the data is read; by default once, but TRAIN reads a short log of what was taken up to ten times: `word2vec` "
        "until it has learned 200,000 sequences, `xsvd` with `negatives` until 1,000,000 rows",
        minimum=1,
        maximum=10_000,
    )
    patience: int | None = option(
        None,
        "early stopping: passes without a lower loss of the first label, or more recall, on the rows of VALIDATE after which "
        "the training stops; the weights of the best pass are kept",
        minimum=1,
        maximum=10_000,
    )
    patience_by: str | None = option(
        None,
        "the metric of the first label that patience judges by; by default its loss, or recall",
        choices=(*HIGHER, *LOWER),
        needs=(when("patience"),),
    )
    held_out: str | None = option(
        None,
        "what is learned of a share of VALIDATE once it has judged: all rows anew, in as many passes as were best; the rest, "
        "those held out, in one pass from the best one on; or none; by default all, rest where the first pass was the best, "
        "and none by tdm",
        choices=(ALL, REST, NONE),
    )
    workers: int | None = option(
        None,
        "workers that learn in parallel, each with a thread that prefetches; with one, results are deterministic; by default "
        "by cores and rows: in one process one for each two cores and 500,000 rows, 2,000,000 of fm and networks, and one with "
        "ssp, bsp and hybrid",
        minimum=1,
        maximum=4096,
    )
    shards: int | None = option(
        None,
        "servers of the parameter server; by default one, on Spark by cores and rows",
        minimum=1,
        maximum=1024,
        facts=(BATCHES,),
    )
    sync: str = option(
        "asp",
        "consistency between workers: asynchronous, stale synchronous or bulk synchronous; hybrid: rows of features as with "
        "asp, dense parameters as with bsp",
        choices=("asp", "ssp", "bsp", "hybrid"),
        facts=(BATCHES,),
    )
    slack: int = option(
        4, "staleness bound: steps a worker may be ahead of the slowest", minimum=0, needs=(when("sync", "ssp"),)
    )
    read_ahead: int | None = option(
        None,
        "batches that a worker prefetches (reads and encodes ahead), at most; by default as many as it turns out to need, "
        "up to 64",
        minimum=1,
        maximum=4096,
        facts=(BATCHES,),
    )
    checkpoint_seconds: float = option(
        60.0, "seconds between checkpoints; 0: none are taken", minimum=0, maximum=1e9, facts=(BATCHES,)
    )
    checkpoint_path: str | None = option(
        None,
        "where checkpoints go, a path or a URI that Arrow knows (s3://bucket/folder); by default the version's folder",
        needs=(when("checkpoint_seconds"),),
        facts=(BATCHES,),
    )
    base_rate: float | None = option(
        None,
        "mean label whose log odds, plus ln(positive_weight), the intercept of a new model begins at; by default "
        "estimated from a part of the input for linear models, `ffm` and `xsvd`, for `fm` and networks where it is "
        "below 0.05 or above 0.95; else it begins at 0",
    )
    encrypt: bool = option(
        False,
        "TLS between machines, on Spark: in the training, in CONTINUE and RESUME, and where the model scores; needs the extra "
        "tls on the driver",
    )
    once: str | None = option(
        None,
        "idempotency key, such as a day: nothing is learned where the continued version, or one of its ancestors, has "
        "learned under this name",
    )
    until: str | None = option(
        None, "how far a stream is learned: to what has arrived when the statement begins", choices=("available",)
    )
    data_loss: str = option(
        "fail",
        "data of a stream that was lost before it was learned, or has changed: an error, or skipped",
        choices=("fail", "continue"),
    )
    fit_rows: int | None = option(
        None, "how many of the query's first rows the constants of TRANSFORM are computed from; by default all", minimum=1
    )
    refit: bool = option(False, "CONTINUE computes the constants of TRANSFORM anew, from its own query")
    delay: str | None = option(
        None,
        "for a stream whose query joins: how long its files wait for matching rows, such as '15 minutes'",
    )
    seed: int = option(7, "seed of everything random", minimum=0, maximum=2**31 - 1)
    nulls: str = option("feature", "a NULL in a categorical slot is a feature, or absent", choices=("feature", "absent"))
    hashed: tuple[str, ...] = option((), "BIGINT columns that hold ready-made ids")
    raw: tuple[str, ...] = option((), "BIGINT columns whose ready-made ids are the keys themselves, unlike any other's")
    compact: str = option(
        "auto",
        "whether what neighbouring rows have in common, such as the rows of one user or request in a sorted log, is found "
        "and computed once for all of them",
        choices=("auto", "off"),
        facts=(COMMON,),
    )
    task: str = option(
        "auto",
        "multiclass: the values of an integer LABEL are classes, as a text's always are; auto: its numbers are what is "
        "learned, 0 or 1 with most losses",
        choices=("auto", "multiclass"),
    )
    share: tuple = option((), "slots that use another slot's rows: (history AS item)")  # type: ignore[type-arg]
    missing_items: str = option(
        "drop", "rows of an item that ITEMS lacks are left out, counted and reported; or an error", choices=("drop", "error")
    )
    vectors: tuple = option((), "slots whose values are ids of VECTORS: (image IN images)")  # type: ignore[type-arg]
    vectors_hidden: tuple[int, ...] = option(
        (64,),
        "units of the hidden layers of the network that each vector of VECTORS goes through",
        needs=(when("vectors"),),
    )

    @property
    def together(self) -> bool:
        """Whether workers make their steps together."""
        return self.sync in ("bsp", "hybrid")

    @property
    def forgives(self) -> bool:
        """Whether lost data of a stream is skipped."""
        return self.data_loss == "continue"

    @property
    def delay_seconds(self) -> float | None:
        """How long the files of a joined stream wait; None where it is not joined."""
        return None if self.delay is None else duration_seconds(self.delay, DELAY)


@dataclass(frozen=True)
class Use:
    """A part as a statement uses it: its name, the options given, and the options object with defaults filled in.

    `on`: the tables that an operator acts on, `dense` for dense parameters; empty for all. `part`: one that no statement names.
    """

    name: str
    given: Mapping[str, Any]
    options: Any
    on: tuple[str, ...] = ()
    part: AnyPart | None = None


@dataclass(frozen=True)
class Plan:
    """A training: statement text, model, parts, roles of columns, and the query.

    `share` in settings is a tuple of (slot, slot whose rows it uses). `passing`: the query reads what goes with its
    statement, so that its rows are staged. `inherited`: options of the algorithm that the continued version gives, not the
    statement. `stream`: what the query reads grows. `transform`: the list that is around the query. `crosses`: what is
    combined of its slots. `publish`: how often a resident training publishes a version; None for a training that ends by
    itself. `retain`: how many of the newest versions stay; None: all. `trials`: what TUNE tried before. `vectors`: the queries
    of VECTORS by their names, without the continued version's. `beginning`: the share of the rows that is learned, the first
    ones; None: all. `pause`: the share of all batches after which it pauses, with a checkpoint; None: it makes a version.
    `begins`: what it takes over from another training; `rows`: where the query's rows are, which ran before: they become its
    own. `late`: an example comes with label 0, and once more with 1 where that is its label. `positive`: the label of an
    algorithm that learns from what was taken; None: every row was. `items`: the query of ITEMS. `judging`: of a trial of TUNE,
    the file for its predictions of rows held out.
    """

    statement: str
    model: str
    algorithm: Use
    operators: tuple[Use, ...]
    query: str
    labels: tuple[str, ...] = ("label",)
    late: bool = False
    weight: str | None = None
    time: str | None = None
    group: str | None = None
    ignore: tuple[str, ...] = ()
    settings: Settings = field(default_factory=Settings)
    parent: int | None = None
    replace: bool = False
    evaluate: Evaluate | None = None
    validate: Validate | None = None
    release: Condition | None = None
    passing: bool = False
    inherited: frozenset[str] = frozenset()
    stream: StreamQuery | None = None
    transform: Transform | None = None
    crosses: tuple[Term, ...] = ()
    publish: Publish | None = None
    retain: int | None = None
    trials: tuple[Any, ...] = ()
    vectors: Mapping[str, str] = field(default_factory=dict)
    beginning: float | None = None
    positive: str | None = None
    items: str | None = None
    pause: float | None = None
    begins: Beginning | None = None
    rows: Path | None = None
    judging: Path | None = None

    @property
    def roles(self) -> Roles:
        """The roles of the query's columns."""
        evaluate, settings = self.evaluate, self.settings
        return Roles(
            labels=self.labels,
            weight=self.weight,
            time=self.time,
            group=self.group,
            by=evaluate.by if evaluate is not None else None,
            ignore=self.ignore,
            hashed=settings.hashed,
            raw=settings.raw,
            share=settings.share,
            nulls=settings.nulls == "feature",
            grouped=evaluate is not None and self.group is not None,
            named=tuple(named_columns(self.algorithm.options)),
            algorithm=self.algorithm.name,
            crosses=self.crosses,
            multiclass=settings.task == "multiclass",
            vectors=settings.vectors,
            named_vectors=tuple(self.vectors),
            hidden=settings.vectors_hidden,
            positive=self.positive,
        )
