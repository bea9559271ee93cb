"""What the product takes from `threading`, `time`, `concurrent.futures` and `datetime`, in a world."""

from __future__ import annotations

import contextlib
import datetime
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType, TracebackType
from typing import Any

from tests.simulation.world import Fiber, World

ROOMS = ("xpsql.platform.ps", "xpsql.platform.training", "xpsql.platform.input", "xpsql.warehouse")


class Threading:
    """Stands for the module `threading`."""

    local = threading.local

    def __init__(self, world: World) -> None:
        self._world = world

    def Lock(self) -> Lock:
        return Lock(self._world)

    RLock = Lock

    def Condition(self, lock: Lock | None = None) -> Condition:
        return Condition(self._world, lock or Lock(self._world))

    def Event(self) -> Event:
        return Event(self._world)

    def Thread(self, target: Callable[..., object], name: str = "", daemon: bool = True, args: tuple[Any, ...] = ()) -> Thread:
        return Thread(self._world, lambda: target(*args))


class Lock:
    """A lock that its holder may take again."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._holder: Fiber | None = None
        self._depth = 0

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        world = self._world
        if not world.inside:  # nobody else runs
            return True
        if self._holder is world.current:
            self._depth += 1
            return True
        world.step("lock")
        if self._holder is not None and not (
            blocking and world.wait(lambda: self._holder is None, timeout if timeout >= 0 else None)
        ):
            return False
        self._holder, self._depth = world.current, 1
        return True

    def release(self) -> None:
        if self._holder is None or self._holder is not self._world.current:
            return  # of a fiber that dies
        self._depth -= 1
        if not self._depth:
            self._holder = None

    def give_up(self) -> int:
        """Release it whole; return how often it was taken."""
        depth, self._holder, self._depth = self._depth, None, 0
        return depth

    def take_back(self, depth: int) -> None:
        """Take it as often as it was taken."""
        self._world.wait(lambda: self._holder is None, None)
        self._holder, self._depth = self._world.current, depth

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.release()


class Condition:
    """A condition."""

    def __init__(self, world: World, lock: Lock) -> None:
        self._world, self._lock = world, lock
        self._waiting: list[list[bool]] = []

    def wait(self, timeout: float | None = None) -> bool:
        reported = [False]
        self._waiting.append(reported)
        depth = self._lock.give_up()
        found = self._world.wait(lambda: reported[0], timeout)
        self._waiting = [other for other in self._waiting if other is not reported]  # whose values may be equal
        self._lock.take_back(depth)
        return found

    def wait_for(self, predicate: Callable[[], Any], timeout: float | None = None) -> Any:
        end = None if timeout is None else self._world.now + timeout
        while not (found := predicate()):
            left = None if end is None else end - self._world.now
            if left is not None and left <= 0:
                break
            self.wait(left)
        return found

    def notify(self, n: int = 1) -> None:
        for reported in self._waiting[:n]:
            reported[0] = True
        del self._waiting[:n]

    def notify_all(self) -> None:
        self.notify(len(self._waiting))

    def __enter__(self) -> bool:
        return self._lock.acquire()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._lock.release()


class Event:
    """An event."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._set = False

    def is_set(self) -> bool:
        return self._set

    def set(self) -> None:
        self._set = True

    def clear(self) -> None:
        self._set = False

    def wait(self, timeout: float | None = None) -> bool:
        self._world.step("event")
        return self._set or self._world.wait(lambda: self._set, timeout)


class Thread:
    """A thread of the process that makes it."""

    def __init__(self, world: World, target: Callable[[], object]) -> None:
        self._world, self._target = world, target
        self._fiber: Fiber | None = None

    def start(self) -> None:
        assert self._world.current is not None
        self._fiber = self._world.spawn(self._world.current.process, self._target)

    def is_alive(self) -> bool:
        return self._fiber is not None and not self._fiber.done

    def join(self, timeout: float | None = None) -> None:
        self._world.step("join")
        if self.is_alive():
            self._world.wait(lambda: not self.is_alive(), timeout)


class Future:
    """What a thread of a pool returns."""

    def __init__(self, world: World, call: Callable[[], Any]) -> None:
        self._value: Any = None
        self._thread = Thread(world, lambda: self._run(call))
        self._error: BaseException | None = None
        self._thread.start()

    def _run(self, call: Callable[[], Any]) -> None:
        try:
            self._value = call()
        except Exception as error:
            self._error = error

    def result(self) -> Any:
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self._value


class Pool:
    """Stands for ThreadPoolExecutor; what is mapped is done by the caller, one after the other."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._futures: list[Future] = []

    def submit(self, call: Callable[..., Any], *args: Any) -> Future:
        self._futures.append(Future(self._world, lambda: call(*args)))
        return self._futures[-1]

    def map(self, call: Callable[..., Any], *values: Iterable[Any]) -> Iterator[Any]:
        return iter([call(*each) for each in zip(*values, strict=True)])

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for future in self._futures:
            future._thread.join()


class Time:
    """Stands for the module `time`."""

    def __init__(self, world: World) -> None:
        self._world = world

    def monotonic(self) -> float:
        return self._world.now

    perf_counter = monotonic

    def time(self) -> float:
        return 1.8e9 + self._world.now + self._world.skew

    def sleep(self, seconds: float) -> None:
        self._world.wait(lambda: False, seconds)


class WallClock(datetime.datetime):
    """Stands for the class `datetime`; its now is the world's."""

    world: World

    @classmethod
    def now(cls, tz: datetime.tzinfo | None = None) -> datetime.datetime:  # type: ignore[override]
        return datetime.datetime.fromtimestamp(Time(cls.world).time(), tz)


class Uuid:
    """Stands for the module `uuid`."""

    def __init__(self, world: World) -> None:
        self._world = world

    def uuid4(self) -> uuid.UUID:
        return uuid.UUID(int=self._world.random.getrandbits(128), version=4)


@contextlib.contextmanager
def simulated(world: World, also: Iterable[tuple[ModuleType | type, str, Any]]) -> Iterator[None]:
    """Let the product's modules take threads and time from a world.

    Args:
        also: further names of modules and classes, and what stands for them.
    """
    clock = type("Clock", (WallClock,), {"world": world})
    threads = Threading(world)
    names: dict[str, tuple[object, object]] = {
        "threading": (threading, threads),
        "time": (time, Time(world)),
        "ThreadPoolExecutor": (ThreadPoolExecutor, lambda *args, **named: Pool(world)),
        "datetime": (datetime.datetime, clock),
        "uuid": (uuid, Uuid(world)),
    }
    found: list[tuple[Any, str, Any]] = list(also)
    for name, module in list(sys.modules.items()):
        if name.startswith(ROOMS) and ".transport" not in name:
            found += [(module, key, new) for key, (old, new) in names.items() if vars(module).get(key) is old]
    kept = [(owner, name, getattr(owner, name)) for owner, name, _ in found]
    for owner, name, new in found:
        setattr(owner, name, new)
    try:
        yield
    finally:
        for owner, name, old in reversed(kept):
            setattr(owner, name, old)
