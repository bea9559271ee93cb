"""The status files of a resident training: how other processes see it, and ask it to stop.

models/<name>/resident.json    its status, every second; removed when it has ended in order
models/<name>/stop.json        the training that is asked to stop
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import time
from dataclasses import dataclass
from pathlib import Path

from ...platform.typed import has_types
from ..durable import own, storing
from ..entries import record
from ..manifest import FORMAT

FILE, STOP = "resident.json", "stop.json"
SILENT_SECONDS = 30.0
"""The longest silence of a training that is alive."""
MOST = 2**53
"""No number of a status is as large."""


@dataclass(frozen=True)
class ResidentStatus:
    """The status of a resident training.

    Attributes:
        training: a random name.
        process, host: where it runs.
        stream: what it learns from.
        state: `waiting` for more, `learning`, `publishing` while it learns on, or `stopping`.
        version: the last version that it has published or continued; None before there is one.
        published: seconds since 1970 of its last publication; None before.
        versions: how many it has published.
        examples: learned since it began.
        examples_per_second: of the last seconds.
        lag_rows: rows that have arrived and are not learned; counted before filters.
        lag_seconds: how far it is behind; 0 where nothing waits.
        time: when it said so, in seconds since 1970.
    """

    training: str
    process: int = 0
    host: str = ""
    stream: str = ""
    state: str = "waiting"
    version: int | None = None
    published: float | None = None
    versions: int = 0
    examples: int = 0
    examples_per_second: float = 0.0
    lag_rows: int = 0
    lag_seconds: float = 0.0
    time: float = 0.0

    @property
    def text(self) -> str:
        """The status in words."""
        behind = f"{self.lag_rows:,} rows, {self.lag_seconds:,.0f} s behind" if self.lag_rows else "up to date"
        return f"{self.state} from {self.stream}, {behind}, {self.examples_per_second:,.0f}/s"


def is_sound(status: ResidentStatus) -> bool:
    """Return whether a status that was read has values of its types, in their bounds."""
    numbers = (value for value in vars(status).values() if isinstance(value, int | float))
    return has_types(status, ResidentStatus) and all(0 <= number < MOST for number in numbers)


class Residence:
    """The files of one model.

    Args:
        folder: the model's.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def tell(self, status: ResidentStatus) -> None:
        """Publish the status of a training; readers see the old text or the new one.

        Raises:
            ModelError: it cannot be written.
        """
        path = self._folder / FILE
        draft = path.with_suffix(".new")  # one writes it; not synced: a power cut ends the training, too
        with storing(path):
            own(draft).write_text(json.dumps({"format": FORMAT, **dataclasses.asdict(status)}), encoding="utf-8")
            draft.replace(path)

    def status(self) -> ResidentStatus | None:
        """Return the status of a living training; None where there is none, or where it is invalid."""
        with contextlib.suppress(OSError, ValueError, TypeError, OverflowError, RecursionError):
            found = record(ResidentStatus, json.loads((self._folder / FILE).read_text(encoding="utf-8")))
            if abs(time.time() - found.time) < SILENT_SECONDS and is_sound(found):
                return found
        return None

    def ask(self, training: str) -> None:
        """Ask a training to stop."""
        path = self._folder / STOP
        with storing(path):
            own(path).write_text(json.dumps({"format": FORMAT, "training": training}), encoding="utf-8")

    def asked(self, training: str) -> bool:
        """Return whether a training was asked to stop."""
        with contextlib.suppress(OSError, ValueError, TypeError, KeyError, RecursionError):
            return bool(json.loads((self._folder / STOP).read_text(encoding="utf-8"))["training"] == training)
        return False

    def leave(self) -> None:
        """Remove the status."""
        with contextlib.suppress(OSError):
            for path in (self._folder / FILE, (self._folder / FILE).with_suffix(".new"), self._folder / STOP):
                path.unlink(missing_ok=True)
