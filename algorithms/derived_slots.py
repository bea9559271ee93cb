"""Further slots: what is made of an example beside its own features, as slots of a network that does not know of it."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from ..platform.errors import StatementError, Subject
from ..platform.operators.base import DenseSpec
from .base import Algorithm, Parameters
from .inputs import Inputs, Layout

VECTORS = "vectors"  # the table of vectors of features

Make = Callable[[Any, Layout], Algorithm]
See = Callable[[Parameters, Inputs], tuple[Parameters, Inputs]]


def dim_of(made: Algorithm, subject: Subject) -> int:
    """Return the elements of the vectors of features.

    Raises:
        StatementError: the algorithm is none that could have further slots: a network that learns to predict labels.
    """
    table = next((table for table in made.tables if table.name == VECTORS), None)
    network = made.dense_optimizer is not None  # which learns the layers that make slots of others
    if table is None or not network or not made.serves or made.loss is None:
        raise StatementError(
            f"{subject} is for networks over the vectors of features that learn to predict labels, such as din and wide_deep.",
            subject=subject,
        )
    return table.dim


def seeing(made: Algorithm, see: See, specs: Sequence[DenseSpec]) -> Algorithm:
    """Return an algorithm that sees other parameters and inputs than it is given.

    Args:
        see: what it sees.
        specs: the dense parameters that this takes.
    """

    def through(function: Callable[[Parameters, Inputs], Any]) -> Callable[[Parameters, Inputs], Any]:
        @functools.wraps(function)
        def called(parameters: Parameters, inputs: Inputs) -> Any:
            return function(*see(parameters, inputs))

        return called

    return dataclasses.replace(
        made,
        learns=made.learns.through(through),
        dense=(*made.dense, *specs),
        outputs={name: output._replace(value=through(output.value)) for name, output in made.outputs.items()},
        traits=made.traits._replace(compact=False),
    )


def with_rows(parameters: Parameters, made: Algorithm, more: jax.Array) -> dict[str, jax.Array]:
    """Return the parameters with further rows after those that were pulled: in the table of vectors, and zeros in others.

    Args:
        more: float32[k, dim].
    """
    found = dict(parameters)
    for name in (table.name for table in made.tables):
        rows = parameters[name]
        zeros = jnp.zeros((more.shape[0], rows.shape[1]), rows.dtype)
        found[name] = jnp.concatenate([rows, more if name == VECTORS else zeros])
    return found
