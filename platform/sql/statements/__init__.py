"""Our statements, one file each. Every file makes one or more `Statement`; STATEMENTS lists them all."""

from __future__ import annotations

from ..base import Statement

STATEMENTS: tuple[Statement, ...] = ()
