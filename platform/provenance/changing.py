"""Statements that change what is in a warehouse are told by their words, before anything is loaded."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...warehouse.catalog import Catalog

CHANGES = re.compile(
    r"(TRAIN|CONTINUE|RESUME|STOP|ALTER|DROP|SHRINK|IMPORT|REFRESH|INSERT|UPDATE|DELETE|MERGE|TRUNCATE)\b"
    r"|REPRODUCE\s[^;]*\bAS\b"
    r"|CREATE\s+(OR\s+REPLACE\s+)?(TABLE|VIEW|HISTORY|DATABASE|SCHEMA)\b",
    re.IGNORECASE,
)
"""How statements begin that change what is in a warehouse."""


def changes(text: str) -> bool:
    """Return whether a statement changes something."""
    return CHANGES.match(text.lstrip()) is not None


def recorded(models: Catalog, text: str, model: str | None, note: Callable[[str], None]) -> AbstractContextManager[None]:
    """Return what records a statement in the audit log, if it changes something; arguments as of audited."""
    if not changes(text):
        return nullcontext()
    from .audit import audited  # few statements need it

    return audited(models, text, model, note)
