"""The command `xpsql`: run a file, run a statement, or a shell.

Exit codes: 0, 1 for a failed statement, 2 for wrong usage, 130 when interrupted.
"""

from __future__ import annotations

from .commands import main

__all__ = ["main"]
