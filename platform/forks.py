"""Forked processes: threads of JAX, of DuckDB and of ours stay in the process before, and who waits for them waits for ever."""

from __future__ import annotations

import os
import sys

from .errors import StatementError, XpsqlError

REMEDY = (
    "Start the process again, by spawn instead of fork (multiprocessing.get_context('spawn')), and call xpsql.connect() in it."
)


class Forks:
    """What was begun in a process that this one was forked from.

    Attributes:
        jax_began: JAX ran there.
    """

    def __init__(self) -> None:
        self.jax_began = False
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._look)

    def check_jax(self) -> None:
        """Refuse to run JAX where it waits for threads of another process.

        Raises:
            StatementError: it would.
        """
        if self.jax_began:
            raise StatementError(f"This process was forked from one that runs JAX, which would wait here for ever. {REMEDY}")

    def _look(self) -> None:
        backends = getattr(sys.modules.get("jax._src.xla_bridge"), "_backends", None)  # not by a function, which takes a lock
        self.jax_began = self.jax_began or bool(backends)


def check_process(owner: int) -> None:
    """Refuse what another process has made.

    Args:
        owner: the number of the process.

    Raises:
        XpsqlError: it is not this one.
    """
    if owner != os.getpid():
        raise XpsqlError(f"This session belongs to process {owner}, from which this one was forked. {REMEDY}")


FORKS = Forks()
