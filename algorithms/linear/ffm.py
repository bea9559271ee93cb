"""FFM: a linear model plus, per feature, a vector for each slot that it meets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import jax

from ...platform.operators.base import Operator, TableSpec
from ...platform.options import Part, given_or, known, option
from ..base import Algorithm, Inputs, Intercept, Layout, Online, Supervised, Traits
from ..layers.initial import uniform
from ..layers.lookups import met
from ..layers.pooling import pooled, slot_rows
from ..losses import loss_of
from ..rates import field_vector_rate_of, vectors_by, weights_by
from ..shared_inputs import CommonLines
from .fm import VectorOptions
from .scores import linear_scores, sums_of


@dataclass(frozen=True)
class FfmOptions(VectorOptions):
    dim: int = option(4, "elements of each of a feature's vectors", minimum=1, maximum=1024)
    vector_alpha: float | None = option(
        None,
        "learning rate of the vectors; by default 0.8 over the number of slots, an array or map counting as six, or 0.25 over "
        "its root where that is more, at most 0.4, with loss = 'squared', 'quantile' or 'poisson' a quarter of it",
        minimum=0,
        open_minimum=True,
        optimizer=True,
    )

    def adapted(self, layout: Layout) -> Self:
        """See `adapted` of platform/options."""
        return VectorOptions.adapted(given_or(self, vector_alpha=field_vector_rate_of(layout, self.loss)), layout)


def ffm(options: FfmOptions, layout: Layout) -> Algorithm:
    """Learn a field-aware factorization machine, each slot a field: weights and vectors by FTRL-proximal.

    A row has a vector for each slot of the model. Features of one slot do not interact with each other.

    Source: Juan et al., Field-aware Factorization Machines for CTR Prediction, RecSys 2016.
    """
    options = options.adapted(layout)
    alpha, vector_alpha, scale = known(options.alpha), known(options.vector_alpha), known(options.init_scale)
    loss = loss_of(options)

    def optimizer(table: TableSpec) -> Operator:
        return weights_by(alpha, table) if table.name == "weights" else vectors_by(vector_alpha, table)

    def scores(parameters: Mapping[str, jax.Array], inputs: Inputs) -> jax.Array:
        inputs = pooled(inputs, layout, options.pooling)
        rows, index = slot_rows(parameters["vectors"], inputs, layout)
        groups = None
        if isinstance(lines := inputs.scalar, CommonLines):
            own = lines.common[: len(layout.scalar)]
            groups = lines.owner, [*own, *[False] * (len(index) - len(own))]
        return linear_scores(parameters["weights"], inputs) + met(rows, index, groups)[:, None]

    size = len(layout.slots) * options.dim
    return Algorithm(
        tables=(TableSpec("weights", 1), TableSpec("vectors", size, uniform(scale, size))),
        optimizer=optimizer,
        learns=Online(Supervised(scores, loss, sums=sums_of(loss, "vectors", options.pooling, len(layout.slots)))),
        intercept=Intercept(at_mean=True) if options.intercept else None,
        traits=Traits(compact=True),
    )


FFM = Part("ffm", FfmOptions, ffm)
