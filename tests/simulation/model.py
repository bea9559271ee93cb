"""What is learned in a world: a log, a model of one weight for each feature, and what both must come to, in plain Python."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tests.simulation.networks import NETWORK, PIECE, LogOutputs, OneDense, bias_of, codes_of, names_of, weight_after
from xpsql.algorithms.blocks.bags import BagRows
from xpsql.platform.input.batches import Batch
from xpsql.platform.input.dealing import Deal, TurnAssignment
from xpsql.platform.input.prefetch import Ahead
from xpsql.platform.input.row_counts import RowCounts
from xpsql.platform.input.source import End, never, standing
from xpsql.platform.input.timing import Clock, Clocks
from xpsql.platform.operators.step_rates import StepRates
from xpsql.platform.ps._native import Arguments, Layout
from xpsql.platform.ps.compiled.ladder import rung
from xpsql.platform.ps.compiled.row_programs import Pushed
from xpsql.platform.ps.messages import BatchId
from xpsql.platform.ps.networks.network_shards import NetworkShards
from xpsql.platform.ps.placement import slices_of
from xpsql.platform.ps.rows.reference import DictRows
from xpsql.platform.ps.shard import Shard
from xpsql.platform.ps.table import Table
from xpsql.platform.ps.watermarks import Turn, Watermarks, turns_of
from xpsql.platform.training.clauses.settings import Settings
from xpsql.platform.training.metrics.metrics import LabelMetrics, Tally, Targets
from xpsql.platform.training.metrics.observed import Observations
from xpsql.platform.training.monitor import Monitor
from xpsql.platform.training.online.step import Learned
from xpsql.platform.training.online.worker import Worker
from xpsql.platform.training.parallelism import Places
from xpsql.platform.training.plan import Plan, Use
from xpsql.platform.training.trial import NO_TRIAL
from xpsql.platform.training.validation import Pull
from xpsql.warehouse.entries import RowGroup, TableEntry

TABLE = "weights"
ENTRIES = (TableEntry(TABLE, 1, {"w": 1}),)
FEATURES, EXAMPLES = 24, 5
NO_BIAS = np.float32(0)
DECAY, RATE = np.float32(0.75), np.float32(0.125)

Floats = NDArray[np.float32]


class Log(NamedTuple):
    """A log: the batches of each split."""

    splits: tuple[tuple[Batch, ...], ...]

    @property
    def examples(self) -> int:
        return sum(batch.examples for split in self.splits for batch in split)


def made_log(seed: int, splits: int, most_batches: int) -> Log:
    """Draw a log."""
    random = np.random.default_rng(seed)
    keys = np.sort(random.integers(0, 2**64, FEATURES, np.uint64))
    sizes = random.integers(1, most_batches + 1, splits).tolist()
    return Log(tuple(tuple(made_batch(random, keys) for _ in range(size)) for size in sizes))


def made_batch(random: np.random.Generator, pool: NDArray[np.uint64]) -> Batch:
    """Draw a batch whose examples have two features each."""
    examples = int(random.integers(1, EXAMPLES + 1))
    chosen = np.stack([random.choice(len(pool), 2, replace=False) for _ in range(examples)])
    label = (random.random(examples) < 0.4).astype(np.float32)
    seen, codes = np.unique(chosen, return_inverse=True)
    codes = codes.reshape(chosen.shape)
    counts, clicks = (np.zeros(len(seen), np.uint32) for _ in range(2))
    np.add.at(counts, codes, 1)
    np.add.at(clicks, codes, label.astype(np.uint32)[:, None])
    none = np.empty(0, np.int32)
    bags: Any = none, none, none, np.empty(0, np.float32)
    return Batch(
        examples,
        pool[seen],
        rung(len(seen) + 1),
        codes.T.astype(np.int32),
        BagRows(*bags),
        np.empty((0, examples), np.float32),
        none,
        label[None],
        np.ones(examples, np.float32),
        slots=np.ones(len(seen), np.uint16),
        counts=counts,
        clicks=clicks,
    )


class LogSource(NamedTuple):
    """The input of a worker; see Source."""

    log: Log
    epoch: int
    pause: Callable[[], None]

    def batches(
        self, deal: Deal, clock: Clock, left: Callable[[TurnAssignment], bool] = never
    ) -> Generator[Batch | End, None, None]:
        while (dealt := deal()) is not None:
            split = self.log.splits[dealt.turn.split]
            for number in range(dealt.start, len(split)):
                if left(dealt):
                    break
                self.pause()
                yield standing(split[number]._replace(id=BatchId(self.epoch, *dealt.turn, number)), dealt)
            else:
                yield End(dealt.turn, len(split), dealt.term)


class LogPrepared:
    """What the driver and workers know; see Prepared."""

    counts_by_pass = ends_passes = drops = False
    rebuilds = first_pass = 0
    asked = Observations()
    schedule = parent = begins = round = segment = scan = columns = pauses_after = None
    baseline, trial, pace = (), NO_TRIAL, StepRates()
    batch_size = EXAMPLES

    def __init__(self, log: Log, settings: Settings, pause: Callable[[], None], best: int | None = None) -> None:
        self.log, self.best = log, best
        self.hold_out = None if best is None else log
        self.monitor: Monitor | None = None
        self.recipe = recipe_of(settings)
        self.on_shards = self.recipe is not None
        self.plan = Plan("", "m", Use("plain", {}, None), (), "", settings)
        self.places = Places(settings.shards or 1, settings.workers or 1)
        self.splits = splits_of(log)
        self.counts = RowCounts(tuple(split.rows for split in self.splits), True)
        self.passes = settings.passes or 1
        self.turns = turns_of(len(log.splits), self.passes)
        self.targets = Targets.of(("label",), "classes", False)
        self._pause = pause

    @property
    def by_pass(self) -> bool:
        return self.hold_out is not None

    @property
    def input(self) -> SimpleNamespace:
        """What tasks are sent; see TrainingInput."""
        names = (
            "plan",
            "columns",
            "scan",
            "splits",
            "batch_size",
            "parent",
            "begins",
            "round",
            "places",
            "baseline",
            "counts",
            "trial",
            "pace",
            "on_shards",
        )
        return SimpleNamespace(**{name: getattr(self, name) for name in names})

    def source(self, epoch: int) -> LogSource:
        return LogSource(self.log, epoch, self._pause)

    def reading(self, source: LogSource, deal: Deal, clocks: Clocks, threads: int) -> Ahead[Batch | End]:
        return self.ahead(lambda: source.batches(deal, clocks.reading))

    def ahead(self, make: Callable[[], Generator[Batch | End, None, None]]) -> Ahead[Batch | End]:
        return Ahead(make, 2)


def splits_of(log: Log) -> tuple[RowGroup, ...]:
    """Return the splits as a manifest lists them."""
    return tuple(
        RowGroup("log.parquet", 1, 1, number, sum(batch.examples for batch in split)) for number, split in enumerate(log.splits)
    )


class LogValidator:
    """A validator by which the pass `best` of a training is the best one; see Validator.

    It pulls the rows of a batch, as one does that scores rows held out, so that it may find a shard lost.
    """

    gain = None

    def __init__(self, prepared: LogPrepared, rows: Log) -> None:
        assert prepared.monitor is not None
        self._validations, self._best, self._batch = prepared.monitor.validations, prepared.best or 0, rows.splits[0][0]

    def measure(self, metrics: Callable[[], LabelMetrics], pulls: Sequence[Pull]) -> tuple[Tally, ...]:
        """Return tallies whose loss grows with the distance from the best pass."""
        pulls[0](self._batch.keys, self._batch.size)
        found = metrics()
        certainty = np.full((1, 1), 1 / (2 + abs(len(self._validations.passes) - self._best)), np.float32)
        found.add(np.ones((1, 1), np.float32), certainty)
        return found.tallies()


def passes_of(passes: int, best: int | None) -> tuple[int, int]:
    """Return how many passes a training learns that stops after one without gain, and how many its version has."""
    return (passes, passes) if best is None else (min(best + 2, passes), min(best + 1, passes))


class LogWorker(Worker):
    """A worker whose step is arithmetic of NumPy."""

    def __init__(
        self,
        number: int,
        client: Any,
        recipe: Any,
        done: Any,
        ended: Any,
        clock: Clock,
        in_step: bool = False,
        networks: NetworkShards | None = None,
    ) -> None:
        self._number, self._client, self._done, self._ended, self._clock = number, client, done, ended, clock
        self._in_step, self._dense, self._rows_on_device = in_step, None, False
        self._returned, self._dense_returned, self._standardised, self._late = (), (), False, False
        self._networks = networks

    def _chosen(self, batch: Batch, pulled: Any) -> tuple[Batch, Any]:
        return batch, pulled

    def _start_outputs(self, batch: Batch, networks: NetworkShards) -> Any:
        return LogOutputs(batch, networks, self._number)

    def _learn(self, batch: Batch, pulled: Any, by: Any, made: Any) -> Learned:
        weights = pulled.weights[TABLE]
        bias = NO_BIAS if made is None else made.bias()
        gradients, predictions = step_of(batch, weights[: len(batch.keys), 0], bias)
        if made is not None:
            made.residual = residual_of(batch, predictions)
        padded = np.zeros_like(weights)
        padded[: len(batch.keys), 0] = gradients
        return Learned({TABLE: padded}, {}, predictions[:, None])  # type: ignore[dict-item, arg-type]


def residual_of(batch: Batch, predictions: Floats) -> np.float32:
    return np.float32((predictions - batch.label[0]).sum(dtype=np.float32))


def step_of(batch: Batch, weights: Floats, bias: np.float32 = NO_BIAS) -> tuple[Floats, Floats]:
    """Return the gradient of each key and the predictions of a batch."""
    scores = weights[batch.scalar].sum(axis=0, dtype=np.float32) + bias
    predictions = np.clip(np.float32(0.5) + RATE * scores, 0.01, 0.99).astype(np.float32)
    gradients = np.zeros(len(batch.keys), np.float32)
    np.add.at(gradients, batch.scalar.T, (batch.label[0] - predictions)[:, None])
    return gradients, predictions


def moved(weights: Floats, gradients: Floats) -> Floats:
    """Return the weights after an update; the order of updates matters."""
    return (weights * DECAY + gradients * RATE).astype(np.float32)


class PlainProgram:
    """A program of a table without JAX; see Program."""

    def __init__(self, run: Callable[..., Any]) -> None:
        self._layout = Layout([], [("w", "float32", (1,))], [("@mask", "bool", ())])
        self._run = run

    def prepared(self, size: int) -> Arguments:
        return Arguments(self._layout, size)

    def __call__(self, given: Arguments, brought: Mapping[str, Any] | None = None) -> Any:
        return self._run(given, brought)


class PlainPrograms:
    """The programs of rows; see RowPrograms."""

    dims: Mapping[str, int] = {"w": 1}
    stored, transient, needs_pulled = ("w",), (), ()
    initial: Mapping[str, Any] = {}
    needs_updates = False
    pulled_stored: Mapping[str, str] = {TABLE: "w"}
    ended = None

    def __init__(self) -> None:
        chain = SimpleNamespace(expire=None, counting=None, trial=(), admit=None)
        spec = SimpleNamespace(name=TABLE, dim=1)
        read = PlainProgram(lambda given, brought: {"w": np.array(given["w"])})
        self.lead = SimpleNamespace(spec=spec, chain=chain, gated=False, lives=False, columns={"w": "w"}, read=read)
        self.tables = {TABLE: self.lead}
        self.pull = PlainProgram(lambda given, brought: None)
        self.push = PlainProgram(self._push)

    def brought(self, pulled: Mapping[str, Floats], gradients: Mapping[str, Floats]) -> dict[str, Floats]:
        return {"gradient": gradients[TABLE]}

    def _push(self, given: Arguments, brought: Mapping[str, Floats]) -> Pushed:
        after = moved(np.array(given["w"]), brought["gradient"])
        return Pushed({"w": after}, None, None, None, None, None)  # type: ignore[dict-item]


class NoDense:
    """The dense parameters of a shard that has none; see ShardDense."""

    names: tuple[str, ...] = ()
    pulled: tuple[str, ...] = ()
    dated: tuple[str, ...] = ()
    shapes: Mapping[str, tuple[int, ...]] = {}
    version = 1

    def pull(self) -> dict[str, Any]:
        return {}

    def updates(self) -> dict[str, int]:
        return {}

    def push(self, gradients: Any, now: int, seen: Any, pulled: Any) -> dict[str, float]:
        return {}

    def load(self, stored: Any, now: int) -> None:
        pass

    def arrays(self) -> tuple[()]:
        return ()


def recipe_of(settings: Settings) -> bool | None:
    """Return what stands for a recipe: whether shards run a network."""
    return True if settings.vectors_run == "shards" else None


def new_shard(recipe: Any, number: int, num_shards: int, columns: Any, epoch: int, rates: StepRates) -> Shard:
    """Return an empty shard, its rows in a dict; see rows.new_shard."""
    table = Table(PlainPrograms(), DictRows)  # type: ignore[arg-type]
    dense: Any = NoDense() if recipe is None else OneDense(tuple(names_of(num_shards)[number]))
    shard = Shard({TABLE: table}, dense, str)  # type: ignore[arg-type]
    shard.watermarks = Watermarks.fresh(slices_of(number, num_shards), dense.names, epoch)
    return shard


class Row(NamedTuple):
    """A row as a version has it."""

    count: int
    shows: int
    clicks: int
    w: float


def counted(log: Log, passes: int) -> dict[int, tuple[int, int, int]]:
    """Return the statistics of each key when every example has counted once in each pass."""
    found: dict[int, tuple[int, int, int]] = {}
    for batch in (batch for split in log.splits for batch in split):
        for key, count, clicks in zip(batch.keys.tolist(), batch.counts.tolist(), batch.clicks.tolist(), strict=True):
            before = found.get(key, (0, 0, 0))
            found[key] = (before[0] + passes * count, before[1] + passes * count, before[2] + passes * clicks)
    return found


def learned_in_step(log: Log, passes: int, workers: int, of: int, by_pass: bool, networks: int) -> dict[int, float]:
    """Return the weights where workers make each step together, and pushes are applied in their order.

    Args:
        of: passes that are dealt.
        by_pass: a pass begins when the one before is over.
        networks: on so many shards; 0: none.
    """
    turns = turns_of(len(log.splits), of)
    own = [[turn for turn in turns[r::workers] if turn.pass_number < passes] for r in range(workers)]
    parts = [[[t for t in mine if t.pass_number == n] for mine in own] for n in range(passes)] if by_pass else [own]
    weights: dict[int, np.float32] = {}
    net = np.ones(1, np.float32)
    for part in parts:
        net = step_together(log, part, weights, net, networks)
    return {key: float(w) for key, w in weights.items()}


def step_together(
    log: Log, turns: Sequence[Sequence[Turn]], weights: dict[int, np.float32], net: Floats, networks: int
) -> Floats:
    """Learn from the turns of each worker, one batch of each at a time; return the network's weight."""
    streams = [[batch for turn in mine for batch in log.splits[turn.split]] for mine in turns]
    for step in range(max(map(len, streams))):
        batches = [stream[step] for stream in streams if step < len(stream)]
        codes = [codes_of(batch) for batch in batches]
        biases = [bias_of(NETWORK.outputs({PIECE: net}, one)) if networks else NO_BIAS for one in codes]
        made = [step_of(batch, array_of(weights, batch), bias) for batch, bias in zip(batches, biases, strict=True)]
        gradients = [one for one, _ in made]
        if networks:
            residuals = [residual_of(batch, predictions) for batch, (_, predictions) in zip(batches, made, strict=True)]
            given, examples = list(zip(codes, residuals, strict=True)), sum(batch.examples for batch in batches)
            net = weight_after(net, given, examples, networks)
        for batch, gradient in zip(batches, gradients, strict=True):
            after = moved(array_of(weights, batch), gradient)
            weights.update(zip(batch.keys.tolist(), after, strict=True))
    return net


def array_of(weights: Mapping[int, np.float32], batch: Batch) -> Floats:
    return np.array([weights.get(key, 0.0) for key in batch.keys.tolist()], np.float32)


def rows_of(batches: Sequence[Any]) -> dict[int, Row]:
    """Return the rows of a version by key."""
    found = {}
    for batch in batches:
        for line in batch.to_pylist():
            found[line["key"] % 2**64] = Row(line["count"], line["shows"], line["clicks"], line["w"])
    return found


def finished(log: Log, passes: int) -> dict[Turn, int]:
    """Return how many batches each turn has."""
    return {turn: len(log.splits[turn.split]) for turn in turns_of(len(log.splits), passes)}
