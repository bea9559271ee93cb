"""kill -9 at random moments: a process that works on a warehouse, and what it had said when it died."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Sequence


def killed(script: str, arguments: Sequence[str], chance: random.Random, within_seconds: float) -> list[str]:
    """Run a Python script in a process of its own and kill it at a random moment.

    Args:
        script: prints a first line once it has imported what it needs; the moment is counted from there.
        arguments: its sys.argv[1:].
        chance: picks the moment.
        within_seconds: the latest moment. A script that ends before its moment is fine.

    Returns:
        The whole lines that it printed after the first.

    Raises:
        AssertionError: it failed by itself; with its error output.
    """
    command = [sys.executable, "-u", "-c", script, *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        time.sleep(chance.uniform(0, within_seconds))
        process.kill()
        output, errors = process.stdout.read(), process.stderr.read()  # communicate would miss what readline has read ahead
    assert process.returncode in (0, -9), errors
    return output.split("\n")[:-1]
