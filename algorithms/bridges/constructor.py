"""The arguments of a network's constructor: options of the statement, checked against its signature and annotations."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, get_args, get_origin, get_type_hints

from ...platform.errors import OptionError, suggestion
from ...platform.options import REFUSED, article, convert, type_name
from .source import NETWORK

OWN = ("self", "features", "rngs", "key")
"""The arguments that the training provides."""
VARIADIC = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)


def arguments_of(made: Callable[..., Any], given: Mapping[str, Any], what: str) -> dict[str, Any]:
    """Return the arguments for a constructor, or for a function `init`.

    Raises:
        OptionError: an argument is unknown, of another type, or missing.
    """
    parameters = parameters_of(made)
    takes = {name.lower(): name for name, one in parameters.items() if name not in OWN and one.kind not in VARIADIC}
    open_ended = any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters.values())
    hints, found = hints_of(made), {}
    for option, value in given.items():
        subject = NETWORK._replace(option=option)
        name = takes.get(option)
        if name is None:
            if not open_ended:
                message = f"{what} takes no argument {option!r}, nor does algorithm network.{suggestion(option, takes)}"
                raise OptionError(message, subject=subject)
            found[option] = value
            continue
        found[name] = checked(value, hint_of(hints, parameters[name]), f"argument {name} of {what}", option)
    for name in takes.values():
        if parameters[name].default is inspect.Parameter.empty and name not in found:
            raise OptionError(f"{what} needs the argument {name!r}. Give it as an option: {name} = value.", subject=NETWORK)
    return found


def parameters_of(made: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    """Return the parameters of a constructor or a function; a metaclass may hide a class's parameters."""
    return inspect.signature(initializer(made)).parameters


def initializer(made: Callable[..., Any]) -> Callable[..., Any]:
    return made.__init__ if isinstance(made, type) else made  # type: ignore[misc]


def hints_of(made: Callable[..., Any]) -> dict[str, Any]:
    """Return the annotations of a function; none where they name what is not there."""
    try:
        return get_type_hints(initializer(made))
    except (NameError, TypeError):
        return {}


def hint_of(hints: Mapping[str, Any], parameter: inspect.Parameter) -> Any:
    """Return the type of a parameter: as annotated, else that of its default."""
    default = parameter.default
    known = isinstance(default, bool | int | float | str | tuple)
    return hints.get(parameter.name, type(default) if known else None)


def checked(value: Any, hint: Any, what: str, option: str) -> Any:
    """Return a value as a type has it; types that statements cannot write are not checked."""
    try:
        expected = type_name(hint)
    except TypeError:
        return value
    converted = convert(value, expected)
    element = get_args(hint)[0] if get_origin(hint) is tuple and get_args(hint) else None
    if converted is not REFUSED and element in (int, float, str, bool):
        items = tuple(convert(item, type_name(element)) for item in converted)
        converted, expected = (REFUSED if REFUSED in items else items), f"list of {element.__name__}s"
    if converted is REFUSED:
        came = "NULL" if value is None else repr(value)
        raise OptionError(f"{what} expects {article(expected)}, got {came}.", subject=NETWORK._replace(option=option))
    return converted
