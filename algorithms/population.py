"""Several candidates of one algorithm that learn the same rows side by side: one reading, one encoding and one row for all.

Each candidate has tables of its own, whose columns stand in the same row of a feature, and a label of its own, a copy of the
one that is learned. What is minimised is the sum of their losses, so no gradient of one reaches another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from ..platform.operators.base import Operator, TableSpec
from ..platform.options import Part
from .base import Algorithm, Inputs, Layout, Online, Supervised, Traits
from .learns import Parameters
from .losses import Loss

MOST = 16
"""Candidates that learn side by side at most: as many programs are compiled as one."""
TOGETHER = ("xftrl", "logistic_regression", "linear_regression", "svm", "fm", "ffm")
"""The algorithms whose parameters are rows alone."""
ALIKE = ("intercept", "loss")
"""Options that have to be the same for all, as they say what a row or a label is."""


@dataclass(frozen=True)
class PopulationOptions:
    """The part that all use, and the options of each."""

    part: Part[Any, Algorithm]
    options: tuple[Any, ...]


def population(options: PopulationOptions, layout: Layout) -> Algorithm:
    """Make candidates that learn side by side.

    Args:
        layout: has a label for each.
    """
    own = layout._replace(labels=layout.labels[:1])
    made = [options.part.make(one, own) for one in options.options]
    specs = {named(spec, n).name: (candidate, spec) for n, candidate in enumerate(made) for spec in candidate.tables}
    tables = tuple(named(spec, n) for n, candidate in enumerate(made) for spec in candidate.tables)

    def optimizer(table: TableSpec) -> Operator:
        candidate, spec = specs[table.name]
        return candidate.optimizer(table._replace(name=spec.name))

    def operators(table: TableSpec) -> tuple[Operator, ...]:
        candidate, spec = specs[table.name]
        return candidate.operators(table._replace(name=spec.name))

    def scores(parameters: Parameters, inputs: Inputs) -> jax.Array:
        return jnp.concatenate(
            [
                candidate.scores({spec.name: parameters[named(spec, n).name] for spec in candidate.tables}, inputs)
                for n, candidate in enumerate(made)
            ],
            axis=1,
        )

    first, begins = made[0], tuple(named(candidate.tables[0], n).name for n, candidate in enumerate(made))
    return Algorithm(
        tables=tables,
        optimizer=optimizer,
        learns=Online(Supervised(scores, loss_of_all(made), labels="several")),
        operators=operators,
        intercept=first.intercept and first.intercept._replace(tables=begins),
        sizing=first.sizing,
        traits=Traits(compact=first.traits.compact),
    )


def named(spec: TableSpec, number: int) -> TableSpec:
    """Return a table under the name that it has for a candidate."""
    return spec._replace(name=f"{spec.name}_{number}")


def loss_of_all(made: Sequence[Algorithm]) -> Loss:
    """Return the losses of all, each of its own score and label."""
    losses = [loss for candidate in made if (loss := candidate.loss) is not None]

    def value(scores: jax.Array, labels: jax.Array) -> jax.Array:
        return jnp.concatenate(
            [loss.value(scores[:, n : n + 1], labels[:, n : n + 1]) for n, loss in enumerate(losses)], axis=1
        )

    def link(scores: jax.Array) -> jax.Array:
        return jnp.concatenate([loss.link(scores[:, n : n + 1]) for n, loss in enumerate(losses)], axis=1)

    return losses[0]._replace(value=value, link=link)


POPULATION = Part("population", PopulationOptions, population)
