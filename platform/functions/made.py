"""Folds and updates as statements use them: made, and those of a user's file held to what they promise."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from ..blame import blaming
from ..errors import StatementError, Subject
from ..options import Part
from .base import Fold, RowTable, Update
from .promises import FOLD_CHECKS, UPDATE_CHECKS, FoldTrial, UpdateTrial


def made_fold(part: Part[Any, Any], options: Any, table: RowTable, name: str, held: bool) -> Fold:
    """Make a fold.

    Args:
        name: as the statement has it.
        held: it is held to what folds promise, on made rows: it is of a user's file.

    Raises:
        StatementError: it fails, or breaks a promise.
    """
    found: Fold = made("fold", Fold, FOLD_CHECKS, FoldTrial, part, options, table, name, held)
    return found


def made_update(part: Part[Any, Any], options: Any, table: RowTable, name: str, held: bool) -> Update:
    """Make an update; arguments and errors as of made_fold."""
    found: Update = made("update", Update, UPDATE_CHECKS, UpdateTrial, part, options, table, name, held)
    return found


def made(
    kind: str,
    of: type[Any],
    checks: tuple[Callable[[Any], None], ...],
    trial_of: Callable[..., Any],
    part: Part[Any, Any],
    options: Any,
    table: RowTable,
    name: str,
    held: bool,
) -> Any:
    subject = Subject.of_part(kind, name)
    with blaming(kind, name):
        found = part.make(options, table)
        if not isinstance(found, of):
            message = f"{subject} must make a value of {of.__name__}, got {found!r}. Repair it, or leave it out."
            raise StatementError(message, subject=subject)
        if isinstance(found, Fold) and (missing := [column for column in found.columns if column not in table.columns]):
            have = ", ".join(table.columns)
            raise StatementError(
                f"{subject} reads {', '.join(missing)}; table {table.name} has {have}. Fold over another table or column.",
                subject=subject,
            )
        if not held:
            return found
        trial = trial_of(part, options, table)
        if (why := broken_promise({check.__name__: partial(check, trial) for check in checks})) is not None:
            message = f"{subject} breaks the contract of {kind}s, {why}. Repair it; xpsql.testing tries it."
            raise StatementError(message, subject=subject)
    return found


def broken_promise(checks: Mapping[str, Callable[[], None]]) -> str | None:
    """Return what the first check that fails says, by its name; None where all hold."""
    for name, check in checks.items():
        try:
            check()
        except AssertionError as error:
            why = " ".join(str(error).split())
            return f"{name.replace('_', ' ')}: {why[:160]}"
    return None
