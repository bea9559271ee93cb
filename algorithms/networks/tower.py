"""A tower: hidden layers and the output above them, the deep part of a network."""

from __future__ import annotations

import itertools

import jax

from ...platform.errors import OptionError, Subject
from ...platform.operators.base import DenseSpec
from ..layers.dense_layers import Layer, Parameters
from ..layers.stacked import Stacked

BATCH_NORM = "batch_norm"


class Tower:
    """Hidden layers `hidden_1`, `hidden_2`, ... and a linear layer `output`.

    Args:
        inputs: width of what goes in.
        hidden: units of each hidden layer.
        outputs: width of what comes out.
        activations: of each hidden layer.
        residual, dropout, norm: of the hidden layers, see Layer.

    Attributes:
        specs: the dense parameters.
    """

    def __init__(
        self,
        inputs: int,
        hidden: tuple[int, ...],
        outputs: int,
        activations: tuple[str, ...],
        residual: bool,
        dropout: float,
        norm: bool,
    ) -> None:
        sizes = [inputs, *hidden]
        shapes = zip(itertools.pairwise(sizes), activations, strict=True)
        self._hidden = tuple(
            Layer(f"hidden_{i}", i, before, units, activation, residual, dropout, norm)
            for i, ((before, units), activation) in enumerate(shapes, 1)
        )
        self._output = Layer("output", len(sizes), sizes[-1], outputs, "linear")
        self.specs: tuple[DenseSpec, ...] = tuple(spec for layer in (*self._hidden, self._output) for spec in layer.specs())

    def apply(self, parameters: Parameters, x: jax.Array | Stacked, random: jax.Array | None) -> jax.Array:
        """Return float32[batch, outputs] for x float32[batch, inputs]; `random` as in Inputs."""
        for layer in self._hidden:
            x = layer.apply(parameters, x, random)
        return self._output.apply(parameters, x, None)


def check_hidden(hidden: tuple[object, ...], option: str, algorithm: str) -> None:
    """Raise OptionError unless every hidden layer has a number of units; `option` says them."""
    wrong = [units for units in hidden if not isinstance(units, int) or isinstance(units, bool) or units < 1]
    if wrong:
        subject = Subject("USING", algorithm, option)
        raise OptionError(f"{subject} expects whole numbers of units, like (128, 64); got {wrong[0]!r}.", subject=subject)


def activations_of(
    names: tuple[str, ...], hidden: tuple[object, ...], algorithm: str, named: str = "activation"
) -> tuple[str, ...]:
    """Return the activation of each hidden layer.

    Args:
        named: the option that names them.

    Raises:
        OptionError: there are neither one nor as many as layers.
    """
    if len(names) not in (1, len(hidden)):
        option = Subject("USING", algorithm, named)
        message = f"{option} expects one for all hidden layers, or one for each of the {len(hidden)}; got {len(names)}."
        raise OptionError(message, subject=option)
    return names * len(hidden) if len(names) == 1 else names
