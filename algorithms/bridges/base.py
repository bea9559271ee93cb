"""The training's view of a network: named arrays, and a function of them and of the inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax

from ...platform.errors import StatementError
from .features import BatchRows
from .source import NETWORK

Arrays = Mapping[str, jax.Array]


class Bridged(NamedTuple):
    """A network.

    Attributes:
        shapes: of its parameters, by name.
        start: (seed) -> the parameters of a new model, and the running averages, by name.
        apply: (parameters, inputs, uint32[2] in an update, else None) -> float[batch] or float[batch, labels].
        averages: the shapes of the running averages of its BatchNorm layers, by name, which are among the parameters, too. An
            update moves them with `follow` to what they become, and scoring reads them.
        outside: see Algorithm.
    """

    shapes: Mapping[str, tuple[int, ...]]
    start: Callable[[int], Arrays]
    apply: Callable[[Arrays, BatchRows, jax.Array | None], jax.Array]
    averages: Mapping[str, tuple[int, ...]] = {}
    outside: str = ""


def check_float32(name: str, value: Any) -> None:
    """Refuse a parameter that is no float32."""
    dtype = getattr(value, "dtype", None)
    if str(dtype).removeprefix("torch.") != "float32":
        came = type(value).__name__ if dtype is None else dtype
        raise StatementError(f"The network's parameter {name} must be float32, got {came}.", subject=NETWORK)


def unknown_state(name: str, kind: str) -> StatementError:
    """Return the error of state that is no parameter."""
    return StatementError(
        f"The network has state that is not a parameter: {name}, a {kind}, whose changes would be lost between workers. "
        "Make it a parameter, or remove it.",
        subject=NETWORK,
    )
