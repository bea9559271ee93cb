"""What row programs raise; without the packages that compile them, which a service of plain rows does without."""

from __future__ import annotations


class DoubtError(Exception):
    """A value of which only an engine knows what becomes."""


class LacksError(Exception):
    """An expression that no row program computes; its text says which part."""
