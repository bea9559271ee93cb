"""Target attention by inner products: what weighs an element of a history is its product with the target."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ...platform.operators.base import DenseSpec
from ..blocks.histories import History
from .attention import NEVER, Attended
from .dense_layers import Parameters
from .lookups import gathered, of_examples
from .packed import places_of


class ProductAttention:
    """Weights <t W_q, h W_k> / sqrt(width) of a target t and the elements h, as `Attention` has them by a network.

    Both kernels meet the target, t W_q W_k^T, so an element costs one product of `width` numbers.

    Source: Vaswani et al., "Attention Is All You Need", NeurIPS 2017, section 3.2.1, with one query.

    Args:
        name: of the parameters, which begin with it.
        width: of a target and of an element.
        softmax: see Attention.

    Attributes:
        specs: the dense parameters.
    """

    def __init__(self, name: str, width: int, softmax: bool) -> None:
        self._names = f"{name}_query.kernel", f"{name}_key.kernel"
        self._width, self._softmax = width, softmax
        self.specs = tuple(DenseSpec(own, (width, width), self._unchanged) for own in self._names)

    def _unchanged(self, seed: int) -> jax.Array:
        """Begin with the inner product of target and element as they are, so that a search by it finds what is alike."""
        return jnp.eye(self._width, dtype=jnp.float32)

    def query(self, parameters: Mapping[str, Any], targets: Any) -> Any:
        """Return what elements are multiplied with, float32[batch, width], of numpy's arrays or JAX's."""
        of_target, of_element = (parameters[name] for name in self._names)
        return (targets @ of_target) @ of_element.T

    def of_rows(self, parameters: Parameters, rows: jax.Array, history: History) -> Attended:
        """Return histories of rows float32[n, dim], with width = fields * dim."""
        fields, count, length = history.rows.shape
        vectors = gathered(rows, history.rows.reshape(fields, count * length)).reshape(count, length, self._width)
        return Attended(vectors, vectors, history.mask, history.owner)

    def pooled(self, parameters: Parameters, target: jax.Array, elements: Attended) -> jax.Array:
        """Return the weighted sum of each example's history, float32[batch, width]; zeros of an empty one."""
        vectors, mask = of_examples(elements.vectors, elements.owner), places_of(elements.mask, elements.owner)
        scores = jnp.einsum("bld,bd->bl", vectors, self.query(parameters, target)) / np.sqrt(self._width)
        if self._softmax:
            scores = jax.nn.softmax(jnp.where(mask, scores, NEVER), axis=1)
        return jnp.einsum("bl,bld->bd", jnp.where(mask, scores, 0), vectors)
