"""Calibrate, predict, measure and extrapolate; write benchmarks/results and the picture of docs/how_far.md.

python -m benchmarks.scale [--force] [--quick] [--only STEP ...]
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks import Figure
from benchmarks.__main__ import RESULTS, document
from benchmarks.log import made
from benchmarks.process import call, measure
from benchmarks.scale import changes, constants, curves, validate

STEPS = ("constants", "validation", "curves", "changes")
PICTURE = Path(__file__).parents[2] / "docs" / "images" / "how_far.svg"
COMMAND = "python -m benchmarks.scale"


def written(name: str, found: list[Figure], results: Path) -> dict[str, object]:
    """Write a step's figures as a document, and print them."""
    for figure in found:
        print(figure.line(), flush=True)
    result = document(f"scale_{name}", found, COMMAND)
    (results / f"scale_{name}.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return result


def steps(only: Sequence[str], quick: bool, folder: Path, results: Path, picture: Path) -> None:
    """Take the steps asked for; what an earlier one found is taken from the results where it is not among them."""
    log = folder / "log"
    measured = {"constants", "validation"} & set(only)
    if measured:
        measure(call(made, log, constants.LOG_ROWS, 1000, 7))
    if "constants" in only:
        written("constants", list(constants.figures(log, folder, quick)), results)
    there = results / "scale_constants.json"
    known = constants.constants_in(json.loads(there.read_text(encoding="utf-8"))) if there.exists() else None
    if "validation" in only:
        if known is None:
            raise SystemExit("There are no constants to predict with: add --only constants.")
        written("validation", validate.validated(known, log, folder, quick, results), results)
    if "curves" in only:
        found = written("curves", list(curves.figures(known, quick)), results)
        picture.write_text(curves.picture(found), encoding="utf-8")
    if "changes" in only:
        written("changes", list(changes.figures(known, quick)), results)


def main(arguments: Sequence[str] | None = None) -> None:
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("benchmarks.scale", description=__doc__, formatter_class=form)
    parser.add_argument("--only", nargs="+", choices=STEPS, default=STEPS, metavar="STEP", help=", ".join(STEPS))
    parser.add_argument("--quick", action="store_true", help="too short to mean anything, kept nowhere: shows that it works")
    parser.add_argument("--force", action="store_true", help="measure also where others are at work on this machine")
    given = parser.parse_args(arguments)
    if {"constants", "validation"} & set(given.only):
        constants.refuse_load(given.force or given.quick)
    began = time.perf_counter()
    with TemporaryDirectory(prefix="xpsql-scale-") as name:
        folder = Path(name)
        results, picture = (folder, folder / "picture.svg") if given.quick else (RESULTS, PICTURE)
        steps(given.only, given.quick, folder, results, picture)
    print(f"{time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
