"""What a training statement says, checked: the input of `train`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from ..dependent import BATCHES, COMMON, COUNTED, when
from ..errors import Subject
from ..input.roles import Roles
from ..input.streams.base import StreamQuery
from ..operators.duration import duration_seconds
from ..options import named_columns, option
from ..parts import AnyPart
from .clauses.base import Clause, Values
from .clauses.column_roles import GROUP, IGNORE, TIME
from .clauses.cross import CROSS
from .clauses.evaluate import EVALUATE
from .clauses.label import LABEL
from .clauses.vectors import VECTORS
from .clauses.weight import BY_AGE, WEIGHT
from .metrics.validations import HIGHER, LOWER

R = TypeVar("R")
V = TypeVar("V")
PASSES, BASE_RATE, PATIENCE, DELAY, SYNC, DEVICE, ROWS_ON, HELD_OUT, TARGET, PATIENCE_BY, PLATEAU, COOLDOWN = (
    Subject("WITH", option=name)
    for name in (
        "passes",
        "base_rate",
        "patience",
        "delay",
        "sync",
        "device",
        "rows_on",
        "held_out",
        "target",
        "patience_by",
        "plateau",
        "cooldown",
    )
)
ALL, REST, NONE = "all", "rest", "none"


@dataclass(frozen=True)
class Settings:
    """The options of WITH."""

    batch_size: int | None = option(
        None,
        "examples per update; by default 64, from 50,000 rows on 256, from 200,000 on 1024; xftrl, svm, linear_regression and "
        "logistic_regression take 2048 from 500,000 on, 4096 from 1,000,000, 8192 from 2,000,000, 16384 from 4,000,000; with "
        "more than four workers, by the rows that four of them learn",
        minimum=1,
        maximum=1 << 20,
        facts=(COUNTED,),
    )
    passes: int | None = option(
        None,
        "how often the data is read; by default once. TRAIN reads short logs of items taken up to ten times: `word2vec` "
        "until it has learned 200,000 sequences, `xsvd` with `negatives` until 1,000,000 rows",
        minimum=1,
        maximum=10_000,
    )
    patience: int | None = option(
        None,
        "early stopping: the training stops after this many passes without a lower loss of the first label, or a higher "
        "recall, on the rows of VALIDATE; the weights of the best pass are kept",
        minimum=1,
        maximum=10_000,
    )
    patience_by: str | None = option(
        None,
        "the metric of the first label that patience judges by; by default its loss, or recall",
        choices=(*HIGHER, *LOWER),
        needs=(when("patience"),),
    )
    plateau: float | None = option(
        None,
        "after a pass without gain every learning rate is multiplied by it, and the training continues from the best pass, "
        "until `patience` passes in a row gained nothing",
        minimum=0,
        open_minimum=True,
        maximum=1,
        open_maximum=True,
        needs=(when("patience"),),
        facts=(BATCHES,),
    )
    cooldown: float | None = option(
        None,
        "share of the updates, the last ones, over which learning rates fall to 0, so that the last rows do "
        "not dominate the model; not for streams",
        minimum=0,
        maximum=1,
        facts=(BATCHES,),
    )
    held_out: str | None = option(
        None,
        "what is learned at the end if VALIDATE holds out a share: all rows anew, in as many passes as were best; the rest, "
        "those held out, in one pass that continues the best one; or none; by default all, rest if the first pass was the "
        "best, and none by tdm",
        choices=(ALL, REST, NONE),
    )
    workers: int | None = option(
        None,
        "workers that learn in parallel, each with a thread that prefetches; with one, results are deterministic; by default "
        "one in one process, where all cores work on its batches, and on Spark by cores and rows: one for each 200,000 rows, "
        "2,000,000 of fm and networks",
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
    target: str | None = option(
        None,
        "how long the training may take, such as '2 hours': workers, shards and batch_size that the statement does not give "
        "are chosen by the beginning of the input, for the fewest core hours; EXPLAIN TRAIN shows other plans, too",
    )
    price: float | None = option(
        None, "price of a core hour: EXPLAIN TRAIN shows what the training costs", minimum=0, needs=(when("target"),)
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
        "the most batches that a worker prefetches (reads and encodes ahead), in one thread; by default as "
        "many as it needs, up to 64; with one worker on several cores, 131,072 rows ahead for each of up to eight",
        minimum=1,
        maximum=4096,
        facts=(BATCHES,),
    )
    checkpoint_seconds: float = option(
        60.0, "seconds between checkpoints; 0: none are taken", minimum=0, maximum=1e9, facts=(BATCHES,)
    )
    device: str = option(
        "auto",
        "where an algorithm that learns batch by batch computes its steps: 'gpu' on the first GPU that JAX sees, in this "
        "process, by default with one worker; auto is the CPU",
        choices=("auto", "cpu", "gpu"),
        facts=(BATCHES,),
    )
    rows_on: str = option(
        "host",
        "where rows are kept: in this machine's memory, or, with one worker and one shard, in the device's; rows "
        "beyond its memory stay in this machine's",
        choices=("host", "device"),
        facts=(BATCHES,),
    )
    checkpoint_path: str | None = option(
        None,
        "where checkpoints go, a path or a URI such as s3://bucket/folder; by default the version's folder",
        needs=(when("checkpoint_seconds"),),
        facts=(BATCHES,),
    )
    base_rate: float | None = option(
        None,
        "mean label: the intercept of a new model begins at its log odds plus ln(positive_weight); by default "
        "estimated from a part of the input for linear models, `ffm` and `xsvd`, for `fm` and networks if it is "
        "below 0.05 or above 0.95; otherwise the intercept begins at 0",
    )
    encrypt: bool = option(
        False,
        "TLS between machines, on Spark: in the training, in CONTINUE and RESUME, and when the model scores; needs the "
        "extra tls on the driver",
    )
    once: str | None = option(
        None,
        "idempotency key, such as a day: nothing is learned if the continued version, or one of its ancestors, "
        "has learned under this name",
    )
    until: str | None = option(
        None, "how far a stream is learned: to what has arrived when the statement begins", choices=("available",)
    )
    data_loss: str = option(
        "fail",
        "if data of a stream was lost before it was learned, or has changed: fail, or skip it",
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
        "compute once what neighbouring rows have in common, such as the rows of one user or request in a sorted log",
        choices=("auto", "off"),
        facts=(COMMON,),
    )
    task: str = option(
        "auto",
        "multiclass: the values of an integer LABEL are classes, as those of a text always are; auto: they are "
        "numbers, 0 or 1 with most losses",
        choices=("auto", "multiclass"),
    )
    negatives_kept: float | None = option(
        None,
        "the share of rows of label 0 that the query keeps: predictions are corrected to those of all rows; the training's "
        "metrics are of the rows kept, before that correction",
        minimum=0,
        maximum=1,
        open_minimum=True,
    )
    share: tuple = option((), "slots that use another slot's rows: (history AS item)")  # type: ignore[type-arg]
    missing_items: str = option(
        "drop", "rows whose item is not in ITEMS: left out, counted and reported; or an error", choices=("drop", "error")
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
    def paced(self) -> bool:
        """Whether steps are multiplied by a rate that changes."""
        return self.plateau is not None or bool(self.cooldown)

    @property
    def forgives(self) -> bool:
        """Whether lost data of a stream is skipped."""
        return self.data_loss == "continue"

    @property
    def target_seconds(self) -> float | None:
        """How long the training may take; None where it does not matter."""
        return None if self.target is None else duration_seconds(self.target, TARGET)

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
    """A training: statement text, model, parts, clauses, and the query.

    Attributes:
        statement: its text.
        operators: those of OPERATORS, in order.
        query: what is learned, with TRANSFORM around it.
        settings: the options of WITH; `share` is a tuple of (slot, slot whose rows it uses).
        clauses: what else it says; `clause` gives it with its type.
        parent: the version that it continues.
        replace: the version takes the place of all before it.
        stream: what the query reads grows.
        passing: the query reads what goes with its statement, so that its rows are staged.
        inherited: options of the algorithm that the continued version gives, not the statement.
    """

    statement: str
    model: str
    algorithm: Use
    operators: tuple[Use, ...]
    query: str
    settings: Settings = field(default_factory=Settings)
    clauses: Values = field(default_factory=dict)
    parent: int | None = None
    replace: bool = False
    stream: StreamQuery | None = None
    passing: bool = False
    inherited: frozenset[str] = frozenset()

    def clause(self, clause: Clause[R, V]) -> V:
        """Return the value of a clause, its default where neither the statement nor the continued version has it."""
        return clause.of(self.clauses)

    def having(self, clause: Clause[R, V], value: V) -> Plan:
        """Return the same training with another value of a clause."""
        return replace(self, clauses={**self.clauses, clause.name: value})

    @property
    def roles(self) -> Roles:
        """The roles of the query's columns."""
        evaluate, settings, group, label = self.clause(EVALUATE), self.settings, self.clause(GROUP), self.clause(LABEL)
        vectors = self.clause(VECTORS)
        return Roles(
            labels=label.columns,
            weight=self.clause(WEIGHT).name,
            time=self.clause(TIME),
            group=group,
            by=evaluate.by if evaluate is not None else None,
            ignore=self.clause(IGNORE),
            hashed=settings.hashed,
            raw=settings.raw,
            share=settings.share,
            nulls=settings.nulls == "feature",
            grouped=evaluate is not None and group is not None,
            named=tuple(named_columns(self.algorithm.options)),
            algorithm=self.algorithm.name,
            crosses=self.clause(CROSS),
            multiclass=settings.task == "multiclass",
            vectors=settings.vectors,
            named_vectors=tuple(vectors),
            hidden=settings.vectors_hidden,
            positive=label.positive,
            computed=(BY_AGE,),
        )
