"""FFM: a linear model plus, per feature, a vector for each slot that it meets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import jax

from ...platform.operators.base import Operator, TableSpec
from ...platform.operators.ftrl import FtrlOptions, ftrl
from ...platform.options import Part, option
from ..base import Algorithm, Inputs, Layout, Online, Supervised
from ..layers.initial import uniform
from ..layers.lookups import met
from ..layers.pooling import slot_rows
from ..losses import LossOptions, loss_of
from .scores import linear_scores


@dataclass(frozen=True)
class FfmOptions(LossOptions):
    dim: int = option(4, "elements of each of a feature's vectors", minimum=1, maximum=1024)
    alpha: float = option(0.1, "learning rate of the linear weights", minimum=0, open_minimum=True, optimizer=True)
    vector_alpha: float = option(
        0.02, "learning rate of the vectors; raise it for long logs", minimum=0, open_minimum=True, optimizer=True
    )
    init_scale: float = option(0.01, "standard deviation of new vectors", minimum=0)
    intercept: bool = option(True, "learn an intercept")


def ffm(options: FfmOptions, layout: Layout) -> Algorithm:
    """Learn a field-aware factorization machine, a slot being a field: weights and vectors by FTRL-proximal.

    A row holds as many vectors as the model has slots. Features of one slot do not meet each other.

    Source: Juan et al., Field-aware Factorization Machines for CTR Prediction, RecSys 2016.
    """
    loss = loss_of(options)

    def optimizer(table: TableSpec) -> Operator:
        return ftrl(FtrlOptions(alpha=options.alpha if table.name == "weights" else options.vector_alpha), table)

    def scores(parameters: Mapping[str, jax.Array], inputs: Inputs) -> jax.Array:
        return linear_scores(parameters["weights"], inputs) + met(*slot_rows(parameters["vectors"], inputs, layout))[:, None]

    size = len(layout.slots) * options.dim
    return Algorithm(
        tables=(TableSpec("weights", 1), TableSpec("vectors", size, uniform(options.init_scale, size))),
        optimizer=optimizer,
        learns=Online(Supervised(scores, loss)),
        intercept=options.intercept,
        begins_at_mean=True,
        compact=True,
    )


FFM = Part("ffm", FfmOptions, ffm)
