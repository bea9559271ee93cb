"""Vowpal Wabbit: FTRL logistic regression on the text of the same rows.

python -m benchmarks.vw OPTIONS
"""

from __future__ import annotations

import sys
from pathlib import Path

TRAIN = "--ftrl --ftrl_alpha 0.1 --ftrl_beta 1 -b 24 --loss_function logistic"


def train(data: Path, model: Path, more: str = "") -> list[str]:
    """Return the command that learns from a file.

    Args:
        more: further options.
    """
    return command(f"{TRAIN} {more} -d {data} -f {model} --quiet")


def score(data: Path, model: Path, predictions: Path) -> list[str]:
    """Return the command that writes a prediction a line."""
    return command(f"-t -d {data} -i {model} -p {predictions} --quiet")


def serve(model: Path, port: int) -> list[str]:
    """Return the command that answers lines with predictions, until it is killed."""
    return command(f"--daemon --foreground --port {port} -t -i {model} --quiet")


def command(options: str) -> list[str]:
    return [sys.executable, "-m", "benchmarks.vw", options]


if __name__ == "__main__":
    from vowpalwabbit import pyvw

    workspace = pyvw.Workspace(sys.argv[1])
    if "--daemon" in sys.argv[1]:
        workspace.run_parser()
    workspace.finish()
