"""What WITH says of a training."""

from __future__ import annotations

from dataclasses import dataclass

from ...dependent import BATCHES, COMMON, COUNTED, DRIFTS, ROUNDS, when
from ...errors import Subject
from ...operators.duration import duration_seconds
from ...options import option
from ..metrics.validations import HIGHER, LOWER

PASSES, BASE_RATE, PATIENCE, DELAY, SYNC, DEVICE, ROWS_ON, HELD_OUT, TARGET, PATIENCE_BY, PLATEAU, COOLDOWN, VECTORS_RUN = (
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
        "vectors_run",
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
        60.0, "seconds between checkpoints; 0: none are taken", minimum=0, maximum=1e9, facts=(ROUNDS,)
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
        facts=(ROUNDS,),
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
    drift_to: int | None = option(
        None,
        "the version that RELEASE WHEN measures drift from, so many steps back from the one in training: 7 is last week's "
        "of a daily job; by default the version served",
        minimum=1,
        facts=(DRIFTS,),
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
    vectors_run: str = option(
        "auto",
        "where the network over VECTORS runs: in each worker, or on the shards, each over its part of the vectors, with sync "
        "'bsp' or 'hybrid'; auto: in workers, but on shards with such a sync where the vectors take more than half of a "
        "task's memory, or several workers have less than half as many distinct ones together as one by one",
        choices=("workers", "shards", "auto"),
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
