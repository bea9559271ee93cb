"""Every I/O of a statement fails once: `python -m tests.warehouse.faults FOLDER [--every N]`, with faults.c in LD_PRELOAD.

A statement runs in a warehouse of its own for each of its calls that open, write, sync, rename or remove below the warehouse,
and the k-th fails with EIO or ENOSPC. Then the warehouse is whole: every version that is ready reads as before the statement or
as after it, the statement can be run again, and no file beside it and its checkpoints was touched.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import errno
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import xpsql
from tests.training.log import log, write
from xpsql.platform.errors import XpsqlError
from xpsql.platform.progress import SilentReporter
from xpsql.platform.session import Session
from xpsql.platform.training import monitor

ERRORS = (errno.EIO, errno.ENOSPC)
ROWS = 300
LEARNS = "AS SELECT label, item, price FROM parquet.`{log}`"


class Case(NamedTuple):
    """A statement whose I/O fails.

    Attributes:
        before: what makes the warehouse that it finds.
        statement: it; `{warehouse}` and `{log}` are replaced.
        stopped: a training that is interrupted after `before`.
    """

    before: tuple[str, ...]
    statement: str
    stopped: str = ""


TRAIN = f"TRAIN MODEL m USING xftrl {LEARNS}"
CHECKPOINTED = f"TRAIN MODEL m USING xftrl WITH (checkpoint_seconds = 0.0001, batch_size = 50) {LEARNS}"
ELSEWHERE = CHECKPOINTED.replace("WITH (", "WITH (checkpoint_path = '{warehouse}-checkpoints', ", 1)
CASES = {
    "TRAIN": Case((), TRAIN),
    "TRAIN with checkpoints": Case((), CHECKPOINTED),
    "TRAIN with checkpoints elsewhere": Case((), ELSEWHERE),
    "RESUME": Case((), "RESUME MODEL m", CHECKPOINTED.replace("WITH (", "WITH (passes = 2, ", 1)),
    "TRAIN OR REPLACE": Case((TRAIN,), TRAIN.replace("TRAIN", "TRAIN OR REPLACE", 1)),
    "CONTINUE": Case((TRAIN,), f"CONTINUE MODEL m {LEARNS}"),
    "EXPORT": Case((TRAIN,), "EXPORT MODEL m TO '{warehouse}-exported' FORMAT parquet"),
    "DROP a version": Case((TRAIN, f"CONTINUE MODEL m {LEARNS}"), "DROP MODEL m VERSION 1"),
    "DROP": Case((TRAIN,), "DROP MODEL m"),
}


def weights(session: Session) -> dict[int, Any]:
    """Return the rows of every ready version, each of whose files is whole."""
    if not any(row["name"] == "m" for row in session.sql("SHOW MODELS").arrow().to_pylist()):
        return {}
    damaged = [row for row in session.sql("CHECK MODEL m").arrow().to_pylist() if row["state"] != "whole"]
    assert not damaged, damaged
    ready = [version.number for version in session.models.versions("m") if version.manifest.status == "ready"]
    query = "SELECT key, weight, count FROM ML.WEIGHTS(MODEL m VERSION {}) ORDER BY key"
    return {number: session.sql(query.format(number)).arrow().to_pylist() for number in ready}


class Stopping(SilentReporter):
    """Interrupts a training, which takes a last checkpoint."""

    def update(self, examples: int, metrics: Mapping[str, float]) -> None:
        raise KeyboardInterrupt


def opened(warehouse: Path, reporter: SilentReporter | None = None) -> Session:
    return xpsql.connect(warehouse, "duckdb", reporter or SilentReporter())


def outside(folder: Path, warehouse: Path) -> dict[Path, tuple[int, int]]:
    """Return the size and time of every file that is neither of a warehouse nor of its checkpoints."""
    found = [path for path in folder.rglob("*") if not path.relative_to(folder).parts[0].startswith(warehouse.name)]
    return {path: (path.stat().st_size, path.stat().st_mtime_ns) for path in found if path.is_file()}


class Faults:
    """The library in LD_PRELOAD of this process."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(None)
        self._library.faults_arm.argtypes = (ctypes.c_char_p, ctypes.c_long, ctypes.c_int)
        self._library.faults_disarm.restype = ctypes.c_long

    def during(self, folder: Path, k: int, error: int, act: Callable[[], object]) -> int:
        """Fail the k-th call below a folder while something acts, none where k is 0; return how many there were."""
        self._library.faults_arm(str(folder).encode(), k, error)
        try:
            act()
        finally:
            calls = int(self._library.faults_disarm())
        return calls


def tried(case: Case, folder: Path, every: int) -> tuple[int, int, list[str]]:
    """Fail every n-th call of a statement, one a time; return how many there are and failed, and what was wrong after which."""
    faults, path = Faults(), write(log(ROWS), folder / "log.parquet", row_group_rows=100)
    source = folder / "before"
    with opened(source) as session:
        for statement in case.before:
            session.sql(statement.replace("{log}", str(path)))
        old = weights(session)
    if case.stopped:
        monitor.TELL_SECONDS = 0.0
        with opened(source, Stopping()) as session, contextlib.suppress(KeyboardInterrupt):
            session.sql(case.stopped.replace("{log}", str(path)))
    source.mkdir(exist_ok=True)

    def ran(warehouse: Path, k: int, error: int) -> tuple[int, BaseException | None]:
        shutil.copytree(source, warehouse)
        failed: list[BaseException] = []
        text = case.statement.replace("{log}", str(path)).replace("{warehouse}", str(warehouse))

        def act() -> None:
            try:
                session.sql(text)
            except Exception as error:
                failed.append(error)

        with opened(warehouse) as session:
            return faults.during(warehouse, k, error, act), failed[0] if failed else None

    calls, failed = ran(folder / "after", 0, 0)
    assert failed is None, failed
    with opened(folder / "after") as session:
        new = weights(session)
    wrong, failures = [], 0
    for k in range(1, calls + 1, every):
        for error in ERRORS if every == 1 else ERRORS[k % 2 :][:1]:
            warehouse = folder / f"{k}-{error}"
            others = outside(folder, warehouse)
            _, failed = ran(warehouse, k, error)
            failures += 1
            try:
                judge(case, warehouse, path, failed, old, new)
                assert outside(folder, warehouse) == others, "files outside of the warehouse changed"
            except Exception as found:
                wrong.append(f"call {k}, {errno.errorcode[error]}: {type(found).__name__}: {found} after {failed!r}")
            for left in (warehouse, folder / f"{warehouse.name}-checkpoints"):
                shutil.rmtree(left, ignore_errors=True)
    return calls, failures, wrong


def judge(case: Case, warehouse: Path, log: Path, failed: BaseException | None, old: object, new: object) -> None:
    """Require that a warehouse is whole after a statement, and that the statement can be run again where it failed."""
    assert failed is None or isinstance(failed, XpsqlError), f"a raw error: {failed!r}"
    with opened(warehouse) as session:
        found = weights(session)
        assert found in (old, new), f"neither old nor new: versions {list(found)}"
        assert failed is not None or found == new, "no error, and nothing done"
        if failed is not None and found == old and old != new:
            session.sql(case.statement.replace("{log}", str(log)).replace("{warehouse}", str(warehouse)))
            again = list(weights(session).values())
            assert again == list(new.values() if isinstance(new, dict) else ()), "another result when run again"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--case", action="append", choices=list(CASES), help="a statement; all where none is named")
    parser.add_argument("--every", type=int, default=1, help="fail each n-th call only")
    options = parser.parse_args()
    total = 0
    for name in options.case or CASES:
        case = CASES[name]
        folder = options.folder.absolute() / name.replace(" ", "-")
        folder.mkdir(parents=True)
        calls, failures, wrong = tried(case, folder, options.every)
        total += len(wrong)
        print(f"| {name} | {calls} | {failures} | {'whole after each' if not wrong else f'{len(wrong)} wrong'} |", flush=True)
        for line in wrong:
            print(line, flush=True)
    raise SystemExit(1 if total else 0)


if __name__ == "__main__":
    main()
