"""What an installation has: the native modules, and the packages of extras."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path


def needing(need: str, extra: str) -> str:
    """Return a message that ends in the command which installs an extra.

    Example:
        >>> needing("read_kafka needs the package confluent-kafka", "kafka")
        "read_kafka needs the package confluent-kafka: pip install 'xpsql[kafka]'."
    """
    return f"{need}: pip install 'xpsql[{extra}]'."


def require_native(name: str, package: str) -> None:
    """Import a native module.

    Raises:
        ModuleNotFoundError: it is not there, as in a checkout, whose folder comes before what is installed elsewhere.
    """
    try:
        import_module(f".{name}", package)
    except ModuleNotFoundError as error:
        folder = Path(__file__).resolve().parents[1]
        message = (
            f"xpsql is imported from its sources in {folder}, which have no compiled modules: run Python in another folder "
            "to use the xpsql that is installed, or compile these by `pip install --editable .` there."
        )
        raise ModuleNotFoundError(message, name=error.name) from None
