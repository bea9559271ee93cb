"""Error attribution for parts, ours or another package's: errors name the part and the place in its file."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from traceback import FrameSummary, extract_tb
from typing import ParamSpec, TypeVar

from .errors import StatementError, Subject, XpsqlError

P = ParamSpec("P")
R = TypeVar("R")


@contextmanager
def blaming(kind: str, name: str) -> Iterator[None]:
    """Turn what a part raises inside the block into an error that names it; our own errors pass.

    Args:
        kind: "operator" or "algorithm".
    """
    try:
        yield
    except XpsqlError:
        raise
    except Exception as error:
        place = place_in_part(extract_tb(error.__traceback__)[2:])  # this frame, and the one that calls the part
        where = f" at {place.filename}, line {place.lineno}" if place is not None else ""
        subject = Subject.of_part(kind, name)
        message = f"{subject} fails{where}: {type(error).__name__}: {error}. Repair it, or leave it out."
        raise StatementError(message, subject=subject) from error


def blamed(kind: str, name: str, function: Callable[P, R]) -> Callable[P, R]:
    """Return a function of a part whose errors name it."""

    @functools.wraps(function)
    def guarded(*args: P.args, **named: P.kwargs) -> R:
        with blaming(kind, name):
            return function(*args, **named)

    return guarded


def place_in_part(frames: list[FrameSummary]) -> FrameSummary | None:
    """Return the innermost of the frames in the file that was entered first, which is the part's."""
    return next((frame for frame in reversed(frames) if frame.filename == frames[0].filename), None)
