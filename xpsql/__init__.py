"""Train large sparse models with SQL.

import xpsql
with xpsql.connect(warehouse="warehouse") as session:
    session.sql("TRAIN MODEL ctr USING xftrl LABEL click AS SELECT * FROM log")
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .algorithms.bridges.attention import TargetAttention
    from .algorithms.bridges.features import Features
    from .platform.errors import (
        CancelledError,
        CheckpointError,
        DataError,
        EngineEndedError,
        LostError,
        ModelError,
        NewerFormatError,
        NotAvailableError,
        NoTextError,
        NumberError,
        OptionError,
        Position,
        StatementError,
        TrainingError,
        XpsqlError,
    )
    from .platform.model import Model
    from .platform.result import Result
    from .platform.session import Session, connect

    __version__: str

__all__ = [
    "CancelledError",
    "CheckpointError",
    "DataError",
    "EngineEndedError",
    "Features",
    "LostError",
    "Model",
    "ModelError",
    "NewerFormatError",
    "NoTextError",
    "NotAvailableError",
    "NumberError",
    "OptionError",
    "Position",
    "Result",
    "Session",
    "StatementError",
    "TargetAttention",
    "TrainingError",
    "XpsqlError",
    "__version__",
    "connect",
]

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
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f".{MODULES.get(name, 'platform.errors')}", __name__), name)


def load_ipython_extension(shell: Any) -> None:
    """Give IPython the magic `%%xpsql`; `%load_ext xpsql` calls it."""
    from .platform.notebook import load

    load(shell)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
