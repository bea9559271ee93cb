"""Whether a place lies in a warehouse, whose files its own statements alone write, replace and remove."""

from __future__ import annotations

from pathlib import Path

MARKS = (
    "models/[!.]*/lock",
    "models/[!.]*/v[1-9]*/manifest.json",
    "tables/[!.]*/_data",
    "histories/[!.]*/definition.json",
)
"""What a warehouse has and no export does: an export has model.json and _manifest.json, too."""


def warehouse_around(path: Path) -> Path | None:
    """Return the warehouse that a path lies in, or is; None where it lies in none. Links are followed."""
    here = path.resolve()
    return next((folder for folder in (here, *here.parents) if is_warehouse(folder)), None)


def is_warehouse(folder: Path) -> bool:
    return any(next(folder.glob(mark), None) is not None for mark in MARKS)


def why_not(path: Path, what: str) -> str | None:
    """Return in words why nothing may be written to a path that a user names; None where it may.

    Args:
        what: names it in the message: "The folder of --log-requests".
    """
    found = warehouse_around(path)
    if found is None:
        return None
    return f"{what} must be outside of a warehouse, and {path} is in {found}. Choose a place outside of it."
