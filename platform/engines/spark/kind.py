"""Spark's entry: what a session knows about it before PySpark is imported."""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ...options import option
from ..kind import EngineKind, PendingEngine
from .environment import SUBMITTED

if TYPE_CHECKING:
    from ..base import Engine


@dataclass(frozen=True)
class SparkOptions:
    """Where Spark is started, and with which settings."""

    master: str | None = option(None, "where Spark runs, such as local[4], spark://host:7077 or yarn")
    remote: str | None = option(None, "a server of Spark Connect, such as sc://host:15002; its executors reach this machine")
    conf: dict[str, str] | None = option(None, "setting of Spark, such as spark.driver.memory=4g; repeatable")  # noqa: RUF009  `option` makes a field


def open_spark(warehouse: Path, options: SparkOptions) -> Engine:
    """Open the engine on the Spark session of this process, which is started where none runs."""
    from .engine import SparkEngine
    from .start import session_of

    spark, own = session_of(options.master, options.conf or {}, options.remote)
    return SparkEngine(spark, warehouse, own)


def pend_spark(warehouse: Path, options: SparkOptions) -> Engine | PendingEngine:
    """Leave the start of Spark to the first statement that needs it; where it runs already, or spark-submit has begun it, the
    engine is opened at once."""
    from .start import check_startable, running_session

    if options.remote is not None or SUBMITTED in os.environ or running_session() is not None:
        return open_spark(warehouse, options)
    check_startable()
    from .engine import SparkEngine
    from .room import ToldRoom

    room = ToldRoom(options.master or "local[*]", options.conf or {})
    return PendingEngine(SparkEngine.name, SparkEngine.statements, room, lambda: open_spark(warehouse, options))


def adopt_session(session: object, warehouse: Path) -> Engine:
    """Open the engine on a Spark session."""
    from .engine import SparkEngine
    from .start import check_session

    return SparkEngine(check_session(session), warehouse, owned=False)


def is_preferred(given: Collection[str]) -> bool:
    """Return whether a master or a server is given, or spark-submit runs this program."""
    return "master" in given or "remote" in given or SUBMITTED in os.environ


SPARK = EngineKind("spark", SparkOptions, open_spark, is_preferred, adopt_session, needs_pandas=True, pend=pend_spark)
