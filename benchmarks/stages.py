"""Run a script as `xpsql run` does, and print when its work began and ended: one line of JSON.

    python -m benchmarks.stages FILE WAREHOUSE BEGAN

BEGAN is time.monotonic() of whoever starts this process. Printed, in seconds: `start_up` until the first training or prediction
begins (imports, opening the engine, checks, reading a model), `work`, `save` (the version's files, without the commit's
renames) and `rest`.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any


class Clock:
    """A reporter that notes times."""

    def __init__(self) -> None:
        self.started = self.finished = self.saved = 0.0

    def start(self, title: str, total_examples: int | None) -> None:
        self.started = time.monotonic()

    def go_on(self, examples: int) -> None:
        pass

    def update(self, examples: int, metrics: Mapping[str, float]) -> None:
        pass

    def finish(self, message: str) -> None:
        self.finished = time.monotonic()

    def note(self, message: str) -> None:
        pass

    def saving(self, save: Callable[..., Any]) -> Callable[..., Any]:
        """Return `save`, its duration noted."""

        def timed(*arguments: Any) -> Any:
            start = time.monotonic()
            saved = save(*arguments)
            self.saved = time.monotonic() - start
            return saved

        return timed


def main(file: str, warehouse: str, began: str) -> None:
    """Run the script and print its stages."""
    from xpsql.platform.session import connect

    clock = Clock()
    with connect(warehouse, reporter=clock) as session:
        opened = time.monotonic()
        from xpsql.platform.training.online import local
        from xpsql.platform.training.row_files.rows import save

        setattr(local, "save", clock.saving(save))  # noqa: B010
        session.sql(Path(file).read_text(encoding="utf-8"))
    stages = {
        "open": opened - float(began),
        "start_up": clock.started - float(began),
        "work": clock.finished - clock.started - clock.saved,
        "save": clock.saved,
        "rest": time.monotonic() - clock.finished,
    }
    print(json.dumps(stages))


if __name__ == "__main__":
    main(*sys.argv[1:])
