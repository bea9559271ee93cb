"""Processes for tests: forked from one that has imported what they need, which saves most of their time."""

from __future__ import annotations

import multiprocessing
from multiprocessing.connection import Connection
from typing import Any

IMPORTED = ["jax", "optax", "duckdb", "sqlglot", "pyarrow.parquet", "pyarrow.dataset"]
IMPORTED += ["xpsql.platform.engines.duckdb.engine", "xpsql.platform.training.train", "xpsql.platform.scoring.prediction"]
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(IMPORTED)


def received(reported: Connection) -> Any:
    """Return the next message; None where there is none, or a kill has cut it."""
    try:
        return reported.recv()
    except (EOFError, OSError):
        return None


def everything(reported: Connection) -> list[Any]:
    """Return all that is left to receive from a process that has ended."""
    with reported:
        return list(iter(lambda: received(reported), None))
