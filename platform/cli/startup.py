"""What the command leaves out so that it starts sooner."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType


class Missing(MetaPathFinder):
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

    missing = Missing("pandas")
    sys.meta_path.insert(0, missing)
    try:
        pa.array([0])
    finally:
        sys.meta_path.remove(missing)
