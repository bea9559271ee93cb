"""Runs seeds: `make simulate SEEDS=0-500`, or one, such as SEEDS=1234, to see what happened in it."""

from __future__ import annotations

import argparse
import gc
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.simulation.mutations import MUTATIONS
from tests.simulation.simulation import Outcome, Simulation


def outcome_of(seed: int, mutation: str | None = None) -> Outcome:
    """Run a seed, with a fault planted where one is named."""
    with tempfile.TemporaryDirectory(prefix="xpsql-simulation-", dir=fast_folder()) as folder:
        return Simulation(seed, Path(folder) / "world", None if mutation is None else MUTATIONS[mutation]).run()


def repeated_by(seed: int, mutation: str | None = None) -> str:
    """Return the command that runs a seed again."""
    return f"make simulate SEEDS={seed}" + ("" if mutation is None else f" MUTATION='{mutation}'")


def fast_folder() -> str | None:
    """Return a folder in memory where there is one."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


def seeds_of(text: str) -> Iterator[int]:
    """Yield the seeds of "7" or "0-500", the last one excluded."""
    first, _, stop = text.partition("-")
    yield from range(int(first), int(stop) if stop else int(first) + 1)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", default="0-500")
    parser.add_argument("--mutation", choices=tuple(MUTATIONS), help="a fault of the product to plant")
    given = parser.parse_args()
    gc.freeze()  # what is imported is not looked through again and again
    began, failed, ran, steps, faults = time.monotonic(), 0, 0, 0, 0
    for seed in seeds_of(given.seeds):
        outcome = outcome_of(seed, given.mutation)
        ran, steps, faults = ran + 1, steps + outcome.steps, faults + outcome.faults
        if "-" not in given.seeds:
            print(outcome.config, *outcome.lines, sep="\n")
        for mistake in dict.fromkeys(outcome.mistakes):
            print(f"seed {seed}: {mistake.rstrip('.')}. Again: {repeated_by(seed, given.mutation)}", flush=True)
        failed += bool(outcome.mistakes)
        if ran % 1000 == 0:
            print(f"{ran} seeds, {failed} failed, {time.monotonic() - began:.0f} s", flush=True)
    print(f"{ran} seeds, {steps} steps, {faults} faults, {failed} failed, {time.monotonic() - began:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
