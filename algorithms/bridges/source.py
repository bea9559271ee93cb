"""The source text of a user's network: read once from a file or a module, carried by the model, and run from there."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ...platform.errors import OptionError, Position, Subject, suggestion
from ...platform.functions.source_text import SourceText, load, of_file

NETWORK = Subject("USING", "network")
CLASS = NETWORK._replace(option="class")
KIND = "network"


def network_of_file(file: str, position: Position | None) -> SourceText:
    """Read a file.

    Raises:
        OptionError: it cannot be read.
    """
    return of_file(file, KIND, position, NETWORK._replace(option="file"))


def network_text(text: str, file: str) -> SourceText:
    """Return the text of a network."""
    return SourceText(text, file, KIND, NETWORK)


def of_module(name: str, position: Position | None) -> SourceText:
    """Read the text of a module that can be imported, without running it.

    Raises:
        OptionError: there is no such module, or it has no text.
    """
    subject = NETWORK._replace(option="module")
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError) as error:
        raise OptionError(f"{subject} names {name!r}, which cannot be found: {error}.", position, subject) from error
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        raise OptionError(f"{subject} names {name!r}, which is not a module of Python source. Install it.", position, subject)
    return network_text(Path(spec.origin).read_text(encoding="utf-8"), spec.origin)


def member(source: SourceText, name: str | None, fits: Callable[[type], bool]) -> Any:
    """Return the class of a text; where none is named, the module itself if it has functions, else its only class that fits.

    Raises:
        OptionError: it has no such class; or none is named, and several fit.
    """
    module = load(source)
    own = {key: value for key, value in vars(module).items() if isinstance(value, type) and value.__module__ == module.__name__}
    if name is None:
        fitting = [key for key, value in own.items() if fits(value)]
        if hasattr(module, "apply") or not fitting:
            return module
        if len(fitting) > 1:
            message = f"{source.file} has several networks: {', '.join(fitting)}. Say which one, like class = '{fitting[-1]}'."
            raise OptionError(message, subject=CLASS)
        return own[fitting[0]]
    found = getattr(module, name, None)
    if not isinstance(found, type):
        raise OptionError(f"{source.file} has no class {name!r}.{suggestion(name, own)}", subject=CLASS)
    return found
