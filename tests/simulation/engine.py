"""An engine of a world that starts tasks as Spark does: it starts again those that fail, and all of a gang together."""

from __future__ import annotations

from collections.abc import Callable

from tests.simulation.world import Process, World
from xpsql.platform.engines.tasks import Running, Task, TaskWords
from xpsql.platform.errors import LostError, TrainingError

START_SECONDS, END_SECONDS = 0.5, 2.0


class SimulatedTasks:
    """Starts each task as a process of its own; see Tasks.

    Args:
        driver: when it dies, its tasks do, too, a moment later.

    Attributes:
        processes: all that were started.
        most_failures: of a task; one more ends the job. 1 as in local[N], 4 as elsewhere.
    """

    host = "driver"
    words = TaskWords("The world", "has {} for a task", "Make it larger", "Make its machines larger")

    def __init__(self, world: World, driver: Process) -> None:
        self._world = world
        self.driver = driver
        self.processes: list[Process] = []
        self.most_failures = world.random.choice((1, 4))

    def slots(self, wanted: int, gang: bool) -> int:
        return wanted

    def memory_bytes(self) -> int | None:
        return None

    def start(self, function: Callable[[Task], None], count: int, name: str, gang: bool) -> Running:
        self._world.step("start tasks")
        return SimulatedRunning(self._world, self, function, count, name, gang)


class SimulatedRunning:
    """Tasks under way; see Running."""

    def __init__(
        self, world: World, tasks: SimulatedTasks, function: Callable[[Task], None], count: int, name: str, gang: bool
    ) -> None:
        self._world, self._tasks, self._function, self._name, self._gang = world, tasks, function, name, gang
        self._role = "shard" if "shards" in name else "worker"
        self._attempts = [0] * count
        self._most = tasks.most_failures
        self._left = set(range(count))
        self._living: dict[int, Process] = {}
        self._error: TrainingError | None = None
        self._cancelled = False
        for number in range(count):
            self._start(number)

    def wait(self, seconds: float) -> bool:
        if seconds:
            self._world.wait(lambda: self._over, seconds)
        else:
            self._world.step("wait for tasks")
        if self._error is not None:
            raise self._error
        return self._over

    def cancel(self) -> None:
        self._world.step("cancel tasks")
        self._cancelled = True
        self._end_all()

    @property
    def _over(self) -> bool:
        return self._cancelled or self._error is not None or not self._left

    def _start(self, number: int) -> None:
        attempt = self._attempts[number]
        self._world.after(self._world.random.random() * START_SECONDS, lambda: self._begin(number, attempt))

    def _begin(self, number: int, attempt: int) -> None:
        if self._over or attempt != self._attempts[number] or not self._tasks.driver.alive:
            return
        process = Process(f"{self._role} {number}.{attempt}", self._role)
        self._tasks.processes.append(process)
        self._living[number] = process
        self._world.say(f"{process} begins")
        process.deaths.append(lambda: self._ended(number, attempt, LostError("Connection reset.")))

        def run() -> None:
            try:
                self._function(Task(number, attempt, 1))
            except Exception as error:
                self._world.say(f"{process} fails: {type(error).__name__}: {error}")
                kind = LostError if isinstance(error, LostError) else TrainingError
                self._ended(number, attempt, kind(f"{type(error).__name__}: {error}"))
            else:
                self._ended(number, attempt, None)
            self._world.kill(process)

        self._world.spawn(process, run)

    def _ended(self, number: int, attempt: int, failure: TrainingError | None) -> None:
        if attempt != self._attempts[number] or number not in self._left:
            return
        self._living.pop(number, None)
        if failure is None:
            self._left.discard(number)
            return
        again = range(len(self._attempts)) if self._gang else (number,)
        for one in again:
            self._attempts[one] += 1
        if self._attempts[number] >= self._most:
            self._error = type(failure)(f"{self._name} failed: {failure}")
            self._end_all()
        elif not self._over:
            if self._gang:
                self._left = set(again)
                self._end_all()
            for one in again:
                self._start(one)

    def _end_all(self) -> None:
        """End what runs, a moment later."""
        for process in list(self._living.values()):
            self._world.after(self._world.random.random() * END_SECONDS, lambda one=process: self._world.kill(one))
        self._living.clear()
