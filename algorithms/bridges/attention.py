"""Target attention, as `din` has it, for networks that users write."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping

import jax
import jax.numpy as jnp

from ..layers.activations import ACTIVATIONS
from ..layers.attention import Attention
from ..layers.lookups import portable
from .features import Features, FeatureValues


class TargetAttention:
    """What of a history matters for the target, `xpsql.TargetAttention`: a small network of both weights each element.

        self.attention = xpsql.TargetAttention(features)           # of target = (item), history = (clicked)
        self.weights = nnx.Dict({name: nnx.Param(v) for name, v in self.attention.init(rngs.params()).items()})
        ...
        seen = self.attention(self.weights, x)                     # float32[batch, width]

    Args:
        features: of the network, whose options `target` and `history` name as many slots, in one order.
        hidden: units of its layers.
        activation: of its layers, one without statistics of batches.
        softmax: weights of an example add up to 1; False, as in the paper, keeps the strength of an interest.

    Attributes:
        width: floats of a target, of an element, and of what is returned.

    Raises:
        ValueError: features have no target, or another number of histories; or there is no such activation.
    """

    def __init__(
        self, features: Features, hidden: tuple[int, ...] = (64, 32), activation: str = "dice", softmax: bool = True
    ) -> None:
        fields, histories = len(features.target), len(features.histories)
        if not fields or fields != histories:
            raise ValueError(
                f"TargetAttention expects as many slots in history as in target, like target = (item), history = (clicked); "
                f"got {histories} and {fields}."
            )
        known = [name for name, one in ACTIVATIONS.items() if not one.follows]
        if activation not in known or not hidden:
            raise ValueError(f"TargetAttention expects an activation of {', '.join(known)}, got {activation!r} for {hidden}.")
        self.width = fields * features.dim
        self._attention = Attention("attention", 0, self.width, tuple(hidden), (activation,) * len(hidden), softmax)

    def init(self, key: jax.Array) -> dict[str, jax.Array]:
        """Return its parameters' first values, float32, by name."""
        seed = jax.random.randint(key, (), 0, 1 << 30)
        return {
            spec.name.replace(".", "_"): jnp.zeros(spec.shape) if spec.init is None else spec.init(seed)  # type: ignore[arg-type]
            for spec in self._attention.specs
        }

    def __call__(self, parameters: Mapping[str, jax.Array], x: FeatureValues) -> jax.Array:
        """Return the weighted sum of each example's history, float32[batch, width]; of one example alone, float32[width].

        Args:
            parameters: as `init` gives them, or what has learned them.
        """
        own = {spec.name: jnp.asarray(parameters[spec.name.replace(".", "_")]) for spec in self._attention.specs}
        vectors, mask = x.elements
        one = x.target.ndim == 1  # which runs under vmap: as plain JAX
        with portable() if one else contextlib.nullcontext():
            target, vectors, mask = (of[None] if one else of for of in (x.target, vectors, mask))
            found = self._attention.pooled(own, target, self._attention.of_vectors(own, vectors, mask))
        return found[0] if one else found
