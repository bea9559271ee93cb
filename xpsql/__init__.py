"""Train large sparse models with SQL.

import xpsql
with xpsql.connect(warehouse="warehouse") as session:
    session.sql("TRAIN MODEL ctr USING xftrl LABEL click AS SELECT * FROM log")

Errors are subclasses of xpsql.XpsqlError: help(xpsql.platform.errors) draws their tree. Networks of your own use xpsql.Features
and xpsql.TargetAttention.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .algorithms.bridges.attention import TargetAttention as TargetAttention
    from .algorithms.bridges.features import Features as Features
    from .platform.errors import CancelledError as CancelledError
    from .platform.errors import CheckpointError as CheckpointError
    from .platform.errors import DataError as DataError
    from .platform.errors import EngineEndedError as EngineEndedError
    from .platform.errors import LostError as LostError
    from .platform.errors import ModelError as ModelError
    from .platform.errors import NewerFormatError as NewerFormatError
    from .platform.errors import NotAvailableError as NotAvailableError
    from .platform.errors import NoTextError as NoTextError
    from .platform.errors import NumberError as NumberError
    from .platform.errors import OptionError as OptionError
    from .platform.errors import Position as Position
    from .platform.errors import StatementError as StatementError
    from .platform.errors import TrainingError as TrainingError
    from .platform.errors import XpsqlError as XpsqlError
    from .platform.model import Model
    from .platform.result import Result
    from .platform.session import Session, connect

    __version__: str

__all__ = ["Model", "Result", "Session", "__version__", "connect"]

NETWORKS = ("Features", "TargetAttention")
ERRORS = (
    "CancelledError",
    "CheckpointError",
    "DataError",
    "EngineEndedError",
    "LostError",
    "ModelError",
    "NewerFormatError",
    "NotAvailableError",
    "NoTextError",
    "NumberError",
    "OptionError",
    "Position",
    "StatementError",
    "TrainingError",
    "XpsqlError",
)
"""Exports that `help(xpsql)` leaves out, so that it fits on a few screens."""

MODULES = {
    "Features": "algorithms.bridges.features",
    "Model": "platform.model",
    "Result": "platform.result",
    "Session": "platform.session",
    "TargetAttention": "algorithms.bridges.attention",
    "connect": "platform.session",
}


def __getattr__(name: str) -> Any:
    """Import an export when it is first used, so that `import xpsql` is cheap."""
    if name == "__version__":
        from importlib.metadata import version

        return version("xpsql")
    if name not in (*__all__, *NETWORKS, *ERRORS):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f".{MODULES.get(name, 'platform.errors')}", __name__), name)


def load_ipython_extension(shell: Any) -> None:
    """Give IPython the magic `%%xpsql`; `%load_ext xpsql` calls it."""
    from .platform.notebook import load

    load(shell)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *NETWORKS, *ERRORS})
