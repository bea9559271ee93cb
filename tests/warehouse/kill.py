"""kill -9 at random moments: a process that works on a warehouse, and what it had said when it died."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from typing import Any

from tests.forkserver import CONTEXT, everything


def killed(work: Callable[..., None], arguments: Sequence[object], chance: random.Random, within_seconds: float) -> list[Any]:
    """Call a function in a process of its own and kill that at a random moment.

    Args:
        work: a function of a module, which takes a connection to tell through and then the arguments. It tells something once
            it is ready; the moment is counted from there.
        chance: picks the moment.
        within_seconds: the latest moment. Work that ends before its moment is fine.

    Returns:
        What it reported after the first.

    Raises:
        AssertionError: it failed by itself; its error output is that of this process.
    """
    reported, tell = CONTEXT.Pipe(duplex=False)
    process = CONTEXT.Process(target=work, args=(tell, *arguments))
    process.start()
    tell.close()
    reported.recv()
    time.sleep(chance.uniform(0, within_seconds))
    process.kill()
    process.join()
    assert process.exitcode in (0, -9)
    return everything(reported)
