"""Shortcuts for a faster start and end of the command."""

from __future__ import annotations

import atexit
import io
import os
import signal
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType


class HiddenModule(MetaPathFinder):
    """Makes a module seem not to be installed."""

    def __init__(self, name: str) -> None:
        self.name = name

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Refuse the module."""
        if name == self.name:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return None


def skip_pandas() -> None:
    """Let PyArrow find no pandas when it looks for it, once, at the first value that it sees.

    Importing pandas takes a quarter of a second, and the command never makes or takes a DataFrame. Who imports pandas later
    gets it, and so does a result's `to_pandas`.
    """
    if "pandas" in sys.modules:
        return
    import pyarrow as pa

    missing = HiddenModule("pandas")
    sys.meta_path.insert(0, missing)
    try:
        pa.array([0])
    finally:
        sys.meta_path.remove(missing)


def hear_interrupts() -> None:
    """Hear Ctrl-C where `xpsql submit` started spark-submit deaf to it, see `started` of submit."""
    if os.environ.pop("XPSQL_HEARS_INTERRUPTS", None) is not None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))


def open_streams() -> None:
    """Take the place of streams that the caller has closed, so that no file that is opened later gets their numbers: what is
    written to stdout fails, for it would be lost, and what is said on stderr goes nowhere."""
    if sys.stdout is None:
        unwritable = io.FileIO(os.open(os.devnull, os.O_RDONLY), "w")
        sys.stdout = io.TextIOWrapper(unwritable, encoding="utf-8", write_through=True)
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115


def end(code: object) -> None:
    """End the process as `sys.exit(code)` does, but for taking Python's modules and JAX's programs apart, which takes time.

    Returns where that is left to Python: with Spark, and where output cannot be written.
    """
    if "pyspark" in sys.modules or not isinstance(code, int | None):
        return
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        return
    if clean_up := getattr(sys.modules.get("jax._src.api"), "clean_up", None):
        atexit.unregister(clean_up)  # which takes programs apart, for half a second
    atexit._run_exitfuncs()
    os._exit(code or 0)
