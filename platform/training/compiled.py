"""How JAX runs and keeps compiled programs. JAX itself is imported by what uses it: what adds in native code does without."""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import hashlib
import importlib.util
import os
import platform
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa

from ...algorithms.layers import _lookups
from ..errors import StatementError
from ..forks import FORKS
from ..ps import _native
from ..trust import TRUST

KEPT_BYTES = 1 << 29
MOST_THREADS = 8  # a batch has no more work to share
PLUGINS = "jax_plugins"
"""The package in which those of JAX for devices are."""
COMPILED = "/jax/core/compile/backend_compile_duration"


def prepare_jax() -> None:
    """Set JAX up for many small programs, before it is first used.

    Raises:
        StatementError: see Forks.check_jax, and check_platforms.
    """
    FORKS.check_jax()
    # A card's memory is taken as it is needed: a training on the CPU needs none, and others share the card.
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    import jax

    check_platforms()
    stay_on_cpu()

    # A program that is handed to another thread costs two switches of threads, which here take longer than some programs.
    jax.config.update("jax_cpu_enable_async_dispatch", False)  # type: ignore[no-untyped-call]
    # Programs need no record of the Python lines that they come from: writing it takes longer than compiling some of them.
    jax.config.update("jax_traceback_in_locations_limit", 0)  # type: ignore[no-untyped-call]
    keep_compiled()
    pass_over_modules()
    # A program of a network over histories has temporary arrays of tens of megabytes, whose pages the system would make anew,
    # as zeros, in each step: a third of the time.
    _lookups.keep_freed(KEPT_BYTES)


def stay_on_cpu() -> None:
    """Let JAX compute on the CPU what names no device, where it has a package for others: programs of rows are small, and what
    is meant for a device names it. A choice of the user stays."""
    import jax

    if importlib.util.find_spec(PLUGINS) is not None and getattr(jax.config, "jax_default_device", None) is None:
        jax.config.update("jax_default_device", "cpu")  # type: ignore[no-untyped-call]


def check_platforms() -> None:
    """Refuse a choice of devices without a CPU, JAX_PLATFORMS=cuda, where there are none of them.

    Raises:
        StatementError: names the choice.
    """
    import jax

    chosen = getattr(jax.config, "jax_platforms", None)
    if not chosen or "cpu" in chosen.split(","):
        return
    try:
        jax.devices()
    except (RuntimeError, AssertionError) as error:  # of a plug-in that is not installed, without a word
        why = str(error).partition(" (set JAX_PLATFORMS")[0] or "there is none on this machine, or JAX has no package for it"
        raise StatementError(
            f"JAX_PLATFORMS is {chosen!r}, which JAX cannot use: {why.rstrip('.')}. Set it to cpu, or leave it out."
        ) from error


def prepare_task(cores: int) -> None:
    """Set a task's process up: so many threads for JAX, for Arrow and for products of rows."""
    limit_threads(cores)
    share_work(cores)
    pa.set_cpu_count(cores)
    TRUST.allow(keep=False)  # the driver has decided what its tasks run
    prepare_jax()


def limit_threads(count: int) -> None:
    """Let XLA use so many threads, unless it has been set before; has no effect once JAX runs."""
    os.environ.setdefault("NPROC", str(count))


def share_work(threads: int) -> None:
    """Let the work on rows, in native code, be shared among so many threads of this process: look-ups, products, pulls and
    pushes. Results do not depend on it."""
    count = min(max(threads, 1), MOST_THREADS)
    _lookups.set_threads(count)
    _native.set_threads(count)


@functools.cache
def pass_over_modules() -> None:
    """Freeze the objects that exist, so that the garbage collector skips them: hundreds of thousands of objects of modules,
    which stay."""
    gc.freeze()
    atexit.register(gc.unfreeze)  # modules end in order


def keep_compiled() -> None:
    """Let JAX keep compiled programs in the user's cache folder, unless JAX_COMPILATION_CACHE_DIR names another: compiling
    takes longer than learning from a small log.

    Programs hold instructions of the processor they were compiled on, so each kind of processor has a folder of its own.
    """
    import jax

    if os.environ.get("JAX_COMPILATION_CACHE_DIR"):
        return
    try:
        root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        folder = root / "xpsql" / f"jax-{jax.__version__}-{processor()}"
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):
        return  # a home that is not writable, or none, as in some containers: programs are compiled anew in each process
    if os.access(folder, os.W_OK):
        for name, value in (("dir", str(folder)), ("min_compile_time_secs", 0.0), ("min_entry_size_bytes", -1)):
            setting = "jax_compilation_cache_dir" if name == "dir" else f"jax_persistent_cache_{name}"
            jax.config.update(setting, value)  # type: ignore[no-untyped-call]


@contextlib.contextmanager
def compilations(count: Callable[[float], None]) -> Iterator[None]:
    """Report every program that JAX makes in this process during the block: the seconds to compile it, or to find it in the
    cache folder."""

    import jax.monitoring

    def heard(event: str, duration_secs: float, **kwargs: str | int) -> None:
        if event == COMPILED:
            count(duration_secs)

    jax.monitoring.register_event_duration_secs_listener(heard)
    try:
        yield
    finally:
        jax.monitoring.unregister_event_duration_listener(heard)


def processor() -> str:
    """Return a short name of this processor's kind: its architecture and instruction sets."""
    described = platform.machine() + platform.processor()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        lines = cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines()
        described += next((line for line in lines if line.startswith(("flags", "Features"))), "")
    return hashlib.sha256(described.encode()).hexdigest()[:12]
