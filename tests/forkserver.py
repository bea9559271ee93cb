"""Processes for tests: forked from one that has imported what they need, which saves most of their time."""

from __future__ import annotations

import multiprocessing
from multiprocessing.connection import Connection
from typing import Any

IMPORTED = ["jax", "optax", "duckdb", "sqlglot", "pyarrow.parquet", "pyarrow.dataset"]
IMPORTED += ["xpsql.platform.engines.duckdb.engine", "xpsql.platform.training.train", "xpsql.platform.scoring.prediction"]
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(IMPORTED)


def received(told: Connection) -> Any:
    """Return the next thing told; None where there is nothing more, or a kill has cut it."""
    try:
        return told.recv()
    except (EOFError, OSError):
        return None


def everything(told: Connection) -> list[Any]:
    """Return all that is left to receive from a process that has ended."""
    with told:
        return list(iter(lambda: received(told), None))
