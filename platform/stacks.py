"""Room on Python's own stack for deep calls in a loop.

CPython keeps the frames of a thread in chunks of 16 KiB (`push_chunk` in Python/pystate.c). A call that does not fit maps a new
chunk, and its return unmaps it: a loop whose calls cross the end of a chunk maps memory, faults and unmaps each time, which
makes the other threads of the process wait, too. Imports cross it all the time.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import FunctionType
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
SLOTS = (1 << 13) + 64
"""Values of 8 bytes: a frame that has room for them takes a chunk of 128 KiB, half of which is left for calls from it."""


def roomy(function: Callable[P, R]) -> Callable[P, R]:
    """Return a function that calls another with a chunk of the stack of its own. Decorate what a thread begins with."""

    @functools.wraps(function)
    def call(*args: P.args, **named: P.kwargs) -> R:
        return function(*args, **named)

    assert isinstance(call, FunctionType)
    call.__code__ = call.__code__.replace(co_stacksize=SLOTS)
    return call
