"""A training of one seed, from its statement to its version, and what must hold whatever went wrong meanwhile."""

from __future__ import annotations

import contextlib
import dataclasses
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tests.simulation import model, networks
from tests.simulation.disk import Disk, Files
from tests.simulation.engine import SimulatedTasks
from tests.simulation.faults import Faults
from tests.simulation.mutations import Stand
from tests.simulation.network import Network
from tests.simulation.threads import simulated
from tests.simulation.world import Process, StuckError, World
from xpsql.platform.errors import XpsqlError
from xpsql.platform.progress import SilentReporter
from xpsql.platform.training import validation
from xpsql.platform.training.clauses.settings import Settings
from xpsql.platform.training.metrics.metrics import weight_range
from xpsql.platform.training.monitor import Monitor
from xpsql.platform.training.online import local, strategy
from xpsql.platform.training.parallelism import Places, in_step
from xpsql.platform.training.tasks import driver as driving
from xpsql.platform.training.tasks import handover, job, shard_task, worker_task
from xpsql.platform.typed import fields_of
from xpsql.warehouse.entries import PartEntry
from xpsql.warehouse.manifest import Manifest
from xpsql.warehouse.models import Models
from xpsql.warehouse.storage import Storage

MOST_STARTS = 12
TRAINING_SECONDS, REST_SECONDS = 3000.0, 120.0


fields_of(Manifest)  # whose types are looked up once: not where the world's clock stands for `datetime`


class Config(NamedTuple):
    """What is trained, and how.

    Attributes:
        tasks: on an engine's tasks; else in the driver's own process.
        beside: checkpoints go to a folder that other trainings share.
        ahead: pulls of a worker under way while it computes.
        batch_seconds: that a worker takes to read a batch.
        slowness: so many times as long takes the first.
        best: the pass that is the best by rows held out, and is kept; None: the last one is.
        networks: shards run a network over vectors.
    """

    log: int
    splits: int
    most_batches: int
    passes: int
    sync: str
    workers: int
    shards: int
    checkpoint_seconds: float
    tasks: bool
    beside: bool
    repeats: float
    ahead: int
    batch_seconds: float
    slowness: int
    best: int | None = None
    networks: bool = False


class Outcome(NamedTuple):
    """How a seed went.

    Attributes:
        mistakes: what does not hold; none where all is well.
        lines: what happened.
        traced: see World.
    """

    seed: int
    config: Config
    mistakes: tuple[str, ...]
    lines: tuple[str, ...]
    traced: int
    steps: int
    faults: int


class Notes(SilentReporter):
    """Notes what a training tells."""

    def __init__(self, world: World) -> None:
        self._world = world

    def note(self, message: str) -> None:
        self._world.say(f"note: {message}")


def config_of(world: World) -> Config:
    """Draw what is trained."""
    random = world.random
    tasks, sync = random.random() < 0.8, random.choice(("asp", "ssp", "bsp", "bsp"))
    workers, shards = random.randint(1, 3), random.randint(1, 3)
    repeated = not in_step(Settings(sync=sync), Places(shards, workers))  # a connection never repeats; a gang relies on it
    config = Config(
        log=random.randrange(1000),
        splits=random.randint(1, 5),
        most_batches=random.randint(1, 6),
        passes=random.randint(1, 2),
        sync=sync,
        workers=workers,
        shards=shards,
        checkpoint_seconds=random.choice((0.0, 0.05, 0.05, 0.2, 0.5)),
        tasks=tasks,
        beside=random.random() < 0.3,
        repeats=random.choice((0.0, 0.2)) if repeated else 0.0,
        ahead=random.choice((0, 1, 2)) if sync == "asp" and workers > 1 else 0,
        batch_seconds=random.choice((0.0, 0.0, 0.1)),
        slowness=random.choice((1, 4)),
        best=random.choice((None, None, 0, 1)),
    )
    if config.best is not None:
        config = config._replace(passes=random.randint(1, 4))
    if sync == "asp" and config.log % 3 == 0:
        config = config._replace(sync="hybrid", repeats=0.0)
    return config._replace(networks=config.sync in ("bsp", "hybrid") and config.log % 5 < 2)


class Simulation:
    """One seed.

    Args:
        folder: new; the disk and what lies beside the warehouse go there.
        planted: a fault of the product, see mutations.py; None: it is as it is.
        calm: what is trained, while nothing goes wrong; None: both are drawn.

    Attributes:
        read: when each batch had been read.
    """

    def __init__(
        self,
        seed: int,
        folder: Path,
        planted: Callable[[], Iterable[Stand]] | None = None,
        calm: Config | None = None,
    ) -> None:
        self._seed, self._folder = seed, folder
        self.world = World(seed)
        self.config = calm or config_of(self.world)
        self.read: list[float] = []
        self.log = model.made_log(self.config.log, self.config.splits, self.config.most_batches)
        self._disk_root = folder / "disk"
        self._warehouse, self._shared = self._disk_root / "warehouse", self._disk_root / "shared"
        self._guarded = {folder / "beside" / "keep", self._disk_root / "keep", self._shared / "n" / "v1-other" / "owner.json"}
        for path in (*self._guarded, self._warehouse / "tables" / "keep"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("keep")
        self._disk = Disk(self.world, self._disk_root)
        self._network = Network(self.world)
        self._network.repeats = self.config.repeats
        self._driver: Process | None = None
        self._processes: list[Process] = []
        self._power_cut = False
        self._faults = Faults(self.world, self._network, self._disk, self._struck, self._cut_power)
        self._planted, self._calm = planted, calm is not None
        self._returned = False
        self._error: BaseException | None = None

    def run(self) -> Outcome:
        """Train until the version is there, and check it."""
        world, mistakes = self.world, list[str]()
        if not self._calm:
            world.on_step = self._faults.step
        with self._disk.mounted(), simulated(world, [*self._stands(), *(self._planted() if self._planted else ())]):
            try:
                self._train()
                self._checked(mistakes)
            except StuckError as stuck:
                mistakes.append(str(stuck))
            except (AssertionError, XpsqlError, OSError) as wrong:
                mistakes.append(str(wrong))
            finally:
                self._end()
        shutil.rmtree(self._folder)
        return Outcome(
            self._seed, self.config, tuple(mistakes), tuple(world.lines), world.traced, world.steps, len(self._faults.struck)
        )

    def _train(self) -> None:
        """Start drivers until one has committed.

        Raises:
            AssertionError: one failed though nothing went wrong, or a version that was ready is no more.
        """
        for start in range(MOST_STARTS):
            before, self._disk.failing = self._faults.fatal, None  # somebody has seen to the disk
            driver = self._driver = Process(f"driver {start}", "driver")
            self._error = None
            world_main = self.world.spawn(driver, lambda driver=driver: self._drive(driver))
            self.world.run(lambda main=world_main: main.done or self._power_cut, TRAINING_SECONDS)
            self.world.kill(driver)
            if self._power_cut:
                self._lose_power()
            if world_main.error is not None:
                raise AssertionError(f"the driver ended by {world_main.error!r}")
            ready = self._ready()
            assert ready or not self._returned, "a version that was committed is gone"
            if ready:
                return
            if self._error is not None:
                self.world.say(f"the training ends: {self._error}")
            assert before < self._faults.fatal, f"ended by what a training recovers from: {self._error}"
        raise AssertionError(f"not done after {MOST_STARTS} starts")

    def _drive(self, driver: Process) -> None:
        """Be a driver: begin, or go on with what was interrupted, to the commit."""
        models, config = Models(self._warehouse), self.config
        settings = Settings(
            passes=config.passes,
            workers=config.workers,
            shards=config.shards,
            sync=config.sync,
            slack=1,
            checkpoint_seconds=config.checkpoint_seconds,
            checkpoint_path=str(self._shared) if config.beside else None,
            vectors_run="shards" if config.networks else "auto",
        )
        prepared: Any = model.LogPrepared(self.log, settings, lambda: self.world.step("read"), config.best)
        try:
            versions = models.present("m")
            interrupted = any(one.manifest.status == "interrupted" and one.manifest.begun for one in versions)
            manifest = Manifest(
                algorithm=PartEntry("plain"), tables=model.ENTRIES, settings={"checkpoint_path": settings.checkpoint_path}
            )
            with models.resume("m") if interrupted else models.begin("m", manifest) as draft:
                if not interrupted:
                    draft.record(dataclasses.replace(draft.manifest, splits=prepared.splits))
                monitor = Monitor(prepared.targets, draft, Notes(self.world), False, None if config.best is None else 1)
                prepared.monitor = monitor
                tasks = SimulatedTasks(self.world, driver) if config.tasks else None
                if tasks is not None:
                    driver.deaths.append(lambda: self._orphaned(tasks))
                    self._processes = tasks.processes
                held = strategy.learn(prepared, tasks, draft, monitor)
                assert weight_range(held.saved.min_weight, held.saved.max_weight)
                newest = monitor.passes.latest.first.examples
                assert newest == self.log.examples, f"the newest pass has {newest} examples, of {self.log.examples}"
                draft.commit(draft.manifest.having_learned(rows=held.saved.rows, examples=monitor.passes.examples))
            self._returned = True
        except XpsqlError as error:
            self._error = error

    def _stands(self) -> Iterator[Stand]:
        """Yield what stands for JAX, sockets and the machine in the product's modules."""
        nothing = contextlib.nullcontext
        for module in (shard_task, worker_task):
            yield module, "prepare_task", lambda cores: None
            yield module, "compilations", lambda count: nothing()
        yield shard_task, "new_shard", model.new_shard
        yield shard_task, "recipe_of", lambda plan, columns: model.recipe_of(plan.settings)
        yield shard_task, "remote_runs", networks.remote_runs
        yield local, "local_runs", networks.local_runs
        for module in (local, worker_task):
            yield module, "asked_of", networks.asked_of
        yield job, "own_version", lambda: "simulated"
        yield shard_task, "own_host", lambda coordinator: "host"
        yield shard_task, "keep_freed_memory", lambda size: None
        yield worker_task, "prepared_of", lambda job: self._prepared_of(job)
        yield worker_task, "Worker", model.LogWorker
        yield worker_task, "pulls_ahead", lambda *sizes: self.config.ahead
        if not self._calm:
            yield handover, "MOVE_SECONDS", 0.01
        yield driving, "SOCKETS", self._network
        yield local, "new_shard", model.new_shard
        yield local, "Worker", model.LogWorker
        yield validation, "Validator", self._validator_of
        yield local, "share_work", lambda threads: None
        made = Storage.__init__

        def init(storage: Storage, uri: str, *parts: str) -> None:
            made(storage, uri, *parts)
            storage.files = Files(storage.files, self._disk)  # type: ignore[assignment]

        yield Storage, "__init__", init

    def _validator_of(self, prepared: Any, rows: Any) -> model.LogValidator:
        return model.LogValidator(prepared, rows)

    def _prepared_of(self, job: Any) -> Any:
        return model.LogPrepared(self.log, job.input.plan.settings, self._read)

    def _read(self) -> None:
        """Take the time that reading a batch takes."""
        self.world.step("read")
        assert self.world.current is not None
        if seconds := self.config.batch_seconds:
            slow = self.world.current.process.name.startswith("worker 0.")
            self.world.wait(lambda: False, seconds * (self.config.slowness if slow else 1))
        self.read.append(self.world.now)

    def _struck(self) -> list[Process]:
        return [*([] if self._driver is None else [self._driver]), *self._processes]

    def _orphaned(self, tasks: SimulatedTasks) -> None:
        """End the tasks of a driver that is gone, a moment later each."""
        for process in tasks.processes:
            self.world.after(self.world.random.random() * 5, lambda one=process: self.world.kill(one))

    def _cut_power(self) -> None:
        self._power_cut = True
        for process in self._struck():
            self.world.kill(process)

    def _lose_power(self) -> None:
        self._power_cut = False
        self._settle()
        self._disk.failing = None
        self._disk.cut_power()

    def _settle(self) -> None:
        """Let those that are dead come to their end."""
        self.world.run(lambda: True, 0.0)

    def _ready(self) -> bool:
        """Return whether the version is there, by its manifest alone."""
        return any(one.manifest.status == "ready" for one in Models(self._warehouse).present("m"))

    def _checked(self, mistakes: list[str]) -> None:
        """Check what is there: at once, when whoever is left has done what they can, and after a power cut."""
        self._check(mistakes)
        resting = Process("rest", "rest")
        main = self.world.spawn(resting, lambda: self.world.wait(lambda: False, REST_SECONDS))
        self.world.run(lambda: main.done, 2 * REST_SECONDS)
        self._check(mistakes)
        if self._returned:  # else it was killed in its commit, which nobody has seen
            self._cut_power()
            self._lose_power()
            self._check(mistakes)

    def _check(self, mistakes: list[str]) -> None:
        config = self.config
        touched = [path for path in sorted(self._guarded) if not path.exists() or path.read_text() != "keep"]
        mistakes += [f"{path.name} beside the warehouse was touched" for path in touched]
        version = Models(self._warehouse).version("m")
        for part in version.everything():
            part.check()
        rows = model.rows_of(list(version.rows(model.TABLE)))
        learned, kept = model.passes_of(config.passes, config.best)
        wanted = model.counted(self.log, kept)
        found = {key: (row.count, row.shows, row.clicks) for key, row in rows.items()}
        if wrong := [key for key in sorted(wanted.keys() | found.keys()) if found.get(key) != wanted.get(key)]:
            first = f"key {wrong[0]} has {found.get(wrong[0])}, of {wanted.get(wrong[0])}"
            mistakes.append(f"count, shows and clicks of {len(wrong)} keys are not the data's: {first}")
        if config.sync == "bsp" or config.workers == 1:
            shards = config.shards if config.networks else 0
            weights = model.learned_in_step(self.log, kept, config.workers, config.passes, config.best is not None, shards)
            if {key: row.w for key, row in rows.items()} != weights:
                mistakes.append("weights differ from an undisturbed training's")
        examples = self.log.examples * learned
        if version.manifest.learned.examples != examples:
            mistakes.append(f"{version.manifest.learned.examples} examples are counted, of {examples}")

    def _end(self) -> None:
        """Let every fiber come to its end."""
        self.world.on_step = lambda kind, process: None
        for process in {fiber.process.name: fiber.process for fiber in self.world.fibers}.values():
            self.world.kill(process)
        self._settle()
