"""The environment of a training: what its bits depend on beside its rows and its statement, kept in the manifest."""

from __future__ import annotations

import contextlib
import functools
import os
import platform
import re
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from ....algorithms.layers import _lookups
from ...ps import _native

CPUINFO = Path("/proc/cpuinfo")
PACKAGES = ("jax", "jaxlib", "numpy", "duckdb", "pyarrow")


@functools.cache
def environment() -> dict[str, str]:
    """Return versions of packages that are installed, checksums of the native modules (XXH3 of their bytes), the processor's
    architecture, and its instructions.

    XLA and the native modules choose code by the processor; XLA_FLAGS is what the user has set of it.
    """
    import xxhash

    modules = {"native": _native, "lookups": _lookups}
    found = {name: xxhash.xxh3_64_hexdigest(Path(str(module.__file__)).read_bytes()) for name, module in modules.items()}
    packages = {}
    for name in PACKAGES:
        with contextlib.suppress(PackageNotFoundError):  # a driver on a cluster has no duckdb
            packages[name] = version(name)
    flags = {"xla_flags": os.environ["XLA_FLAGS"]} if os.environ.get("XLA_FLAGS") else {}
    return {"python": platform.python_version(), **packages, **found, "cpu": platform.machine(), "lanes": lanes(), **flags}


def lanes() -> str:
    """Return which of the processor's instructions code is chosen by, as wide.hpp asks for them."""
    try:
        known = set(re.findall(r"^flags\s*:(.*)$", CPUINFO.read_text(), re.MULTILINE)[0].split())
    except (OSError, IndexError):  # no Linux, or no x86
        return "any"
    if not {"avx2", "fma"} <= known:
        return "any"
    return "avx512" if {"avx512f", "avx512dq"} <= known else "avx2"
