"""What goes wrong in a world, drawn from its seed: how often, when, and to whom."""

from __future__ import annotations

from collections.abc import Callable

from tests.simulation.disk import FAILURES, Disk
from tests.simulation.network import SILENT_SECONDS, Network
from tests.simulation.world import Process, World

MOST = 5
APART = 150
"""Steps from one fault to the next, on average."""
AT = (
    *("", "", ""),
    *("disk fsync", "disk replace", "disk rename", "disk move"),
    *("serve push", "send write", "serve write", "start tasks"),
)
"""Kinds of steps that a fault waits for, once it is due; any where empty."""
KINDS = ("kill", "kill", "kill driver", "stall", "cut", "unreachable", "disk", "disk", "clock", "power")
"""What strikes."""
FATAL = ("kill driver", "disk", "power")


class Faults:
    """Strikes now and then, until there was enough.

    Args:
        processes: returns those that may be struck.
        power: cuts the power, where everything dies with it.

    Attributes:
        struck: the steps at which it did.
        fatal: how many of them may end a training; from the others it recovers by itself.
    """

    def __init__(
        self,
        world: World,
        network: Network,
        disk: Disk,
        processes: Callable[[], list[Process]],
        power: Callable[[], None],
    ) -> None:
        self._world, self._network, self._disk, self._processes, self._power = world, network, disk, processes, power
        self.struck: list[int] = []
        self.fatal = 0
        self._left = world.random.randrange(MOST + 1)
        self._plan()

    def step(self, kind: str, process: Process) -> None:
        """See World.on_step."""
        if self._left and self._world.steps >= self._due and kind.startswith(self._at):
            self._left -= 1
            self.struck.append(self._world.steps)
            self._plan()
            self._strike(process)
        elif self._world.steps > self._due + APART:
            self._at = ""

    def _plan(self) -> None:
        random = self._world.random
        soon = random.random() < 0.25  # while what came before is recovered from
        self._due = self._world.steps + int(random.expovariate(1 / (APART / 10 if soon else APART)))
        self._at = random.choice(AT)

    def _strike(self, process: Process) -> None:
        world, random = self._world, self._world.random
        living = [one for one in self._processes() if one.alive]
        victim = process if random.random() < 0.5 or not living else random.choice(living)
        kind = random.choice(KINDS)
        world.say(f"fault: {kind}, {victim}")
        self.fatal += kind in FATAL or (kind == "kill" and victim.role == "driver")
        if kind == "kill":
            world.kill(victim)
        elif kind == "kill driver":
            world.kill(next((one for one in living if one.role == "driver"), victim))
        elif kind == "stall":
            victim.stalled = world.now + random.choice((0.5, 4.0, 12.0, 45.0))
        elif kind == "cut" and self._network.links:
            random.choice(self._network.links).cut()
        elif kind == "unreachable":
            seconds = random.choice((0.5, 4.0, 20.0, 40.0))
            victim.unreachable = world.now + seconds
            if seconds > SILENT_SECONDS:
                for link in [one for one in self._network.links if victim in (one.process, one.server.process)]:
                    world.after(SILENT_SECONDS, link.cut)
        elif kind == "disk":
            self._disk.failing = random.choice(FAILURES), random.choice((1, 1, 2, 5, 20))
        elif kind == "clock":
            world.skew += random.choice((-86400.0, -5.0, 5.0, 86400.0))
        elif kind == "power":
            self._power()
