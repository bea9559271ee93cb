"""The command `xpsql`: run a file, run a statement, or a shell.

Exit codes: 0, 1 for a failed statement, 2 for wrong usage, 3 for an alarm of `monitor`, 75 where a process or machine was
lost, so that another start may go on, 130 when interrupted, 143 when terminated (SIGTERM), which ends a training as Ctrl-C
does: after a last checkpoint.
"""

from __future__ import annotations

import gc
import os
import signal
import sys

# Imports make hundreds of thousands of objects, which stay; scanning them again and again takes a tenth of a second.
gc.set_threshold(500_000, 20, 100)
# Arrow's own pool clears memory in huge pages, which takes longer than reading the first rows; before Arrow is loaded.
os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")

from ..stacks import roomy  # noqa: E402
from .startup import end, hear_interrupts, open_streams, shorten_jax  # noqa: E402

hear_interrupts()
shorten_jax()

try:
    from .commands import failing, main, writing
except KeyboardInterrupt:  # the first thing that takes long enough to be stopped
    sys.stderr.write("Interrupted.\n")
    sys.exit(130)


INTERRUPTED, TERMINATED = 130, 143


@roomy
def run() -> None:
    """Run the command's process."""
    terminated = False

    def terminate(*_: object) -> None:
        nonlocal terminated
        terminated = True
        if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell starts what it runs in the background
            signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.raise_signal(signal.SIGINT)

    open_streams()
    signal.signal(signal.SIGTERM, terminate)
    try:
        with failing("", "", debug=False), writing("to stdout", "Free space where it goes, or send it elsewhere."):
            main(prog_name="xpsql")
    except SystemExit as ended:
        code = TERMINATED if terminated and ended.code == INTERRUPTED else ended.code
        end(code)
        sys.exit(code)


__all__ = ["main", "run"]
