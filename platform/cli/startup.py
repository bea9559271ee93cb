"""Shortcuts for a faster start and end of the command."""

from __future__ import annotations

import atexit
import importlib.metadata
import io
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
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

    with without("pandas"):
        pa.array([0])


@contextmanager
def without(name: str) -> Iterator[None]:
    """Let a module seem not to be installed for the length of a block."""
    missing = HiddenModule(name)
    sys.meta_path.insert(0, missing)
    try:
        yield
    finally:
        sys.meta_path.remove(missing)


@contextmanager
def without_rocm() -> Iterator[None]:
    """Let JAX not look for its package for AMD's cards, where there is none: it reads what each installed package says of
    itself, which takes as long as a sixth of JAX."""
    if any(any(Path(place).glob("jax[_-]rocm*")) for place in sys.path):
        yield
        return
    installed = importlib.metadata.distributions
    importlib.metadata.distributions = lambda **context: iter(())
    try:
        yield
    finally:
        importlib.metadata.distributions = installed


def shortcuts() -> dict[str, Callable[[], AbstractContextManager[None]]]:
    """Return the modules of JAX that look for what a training does not need, and what keeps each from finding it."""
    found: dict[str, Callable[[], AbstractContextManager[None]]] = {"jax._src.numpy.array_constructors": without_rocm}
    if "://" not in os.environ.get("JAX_COMPILATION_CACHE_DIR", ""):
        found["jax._src.path"] = partial(without, "etils")
    if "JAX_COMPILATION_CACHE_MAX_SIZE" not in os.environ:
        found["jax._src.lru_cache"] = partial(without, "filelock")
    return found


class Shortened(SourceFileLoader):
    """Loads a module in a block."""

    def __init__(self, name: str, path: str, block: Callable[[], AbstractContextManager[None]]) -> None:
        super().__init__(name, path)
        self._block = block

    def exec_module(self, module: ModuleType) -> None:
        """See InspectLoader."""
        with self._block():
            super().exec_module(module)


class Shortcuts(MetaPathFinder):
    """Finds modules that are loaded in a block, by their names; each once."""

    def __init__(self, blocks: Mapping[str, Callable[[], AbstractContextManager[None]]]) -> None:
        self._blocks = dict(blocks)

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Return where a module is, if it is one of those."""
        if (block := self._blocks.pop(name, None)) is None:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and type(spec.loader) is SourceFileLoader:
            spec.loader = Shortened(name, spec.loader.path, block)
        return spec


def shorten_jax() -> None:
    """Let JAX, when it is imported, look for no packages that a training does not need."""
    if "jax" not in sys.modules:
        sys.meta_path.insert(0, Shortcuts(shortcuts()))


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
