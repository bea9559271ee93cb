"""The training step on a device: a batch goes there at once, and what is learned comes back at once."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import jax

from ....algorithms.base import Algorithm, Inputs
from ....algorithms.side_vectors import over_outputs
from ...input.operator_inputs import Offered
from ...ps.pieces import DensePiece
from ..devices import DevicePlace
from ..recipe import Recipe
from .step import KEPT, Learned, Step, learn_step, step_of


def step_for(recipe: Recipe, on_shards: bool = False) -> Step:
    """Return the training step of a recipe, where it places it.

    Args:
        on_shards: shards run the networks over vectors; see over_outputs.
    """
    if on_shards:
        algorithm = over_outputs(recipe.algorithm)
        kept = {spec.name for spec in algorithm.dense}
        return learn_step(algorithm, tuple(piece for piece in recipe.dense.cut if piece.of in kept))
    if recipe.place is None:
        return learn_step(recipe.algorithm, recipe.dense.cut)
    return placed_step(recipe.algorithm, recipe.dense.cut, recipe.place)


@functools.lru_cache(maxsize=KEPT)
def placed_step(algorithm: Algorithm, pieces: tuple[DensePiece, ...], place: DevicePlace) -> Step:
    """Return the training step on a device. Gradients stay there where the rows are there; all else is in this process."""
    step, device = place.compiled(step_of(algorithm, pieces)), place.found

    def run(parameters: Mapping[str, Any], inputs: Inputs, offered: Offered | None) -> Learned:
        learned: Learned = step(*jax.device_put((parameters, inputs, offered), device))
        if place.rows:
            return learned._replace(predictions=jax.device_get(learned.predictions))
        return jax.device_get(learned)  # type: ignore[no-any-return]

    return run
