"""Target attention: how much each element of a history matters for the target of an example, by a small network of both."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from ...platform.operators.base import DenseSpec
from ..blocks.histories import History
from .activations import ACTIVATIONS
from .dense_layers import Layer, Parameters, activated, branch
from .lookups import gathered, of_examples, projected
from .packed import of_elements, places_of, whole
from .scored import ElementInputs, scored

NEVER = -1e9  # the score of what is not there, before a softmax


class Attended(NamedTuple):
    """The elements of histories: their vectors, and the share that they alone have of attention's first layer.

    Attributes:
        vectors: float32[n, L, width], zeros where there is no element; n is batch, or how many histories examples share.
        shares: float32[n, L, units].
        mask: bool[n, L].
        owner: as History has it.
    """

    vectors: jax.Array
    shares: jax.Array
    mask: jax.Array
    owner: jax.Array | None = None

    def total(self) -> jax.Array:
        """Return the sum of each example's elements, float32[batch, width]."""
        return of_examples(self.vectors.sum(axis=1), self.owner)  # rows of what is not there are zeros


class Attention:
    """A network of [target, element, target - element, target * element] that gives each element a weight.

        weight = output(hidden(..., first([t, h, t - h, t * h])))

    The first layer is linear in its four parts, so that with its kernel in four, (K1 + K3) t + (K2 - K3) h + K4 (t * h) is the
    same: the first term is computed once per example, the second once per distinct row of a batch, and only the third for every
    element of every example's history.

    Source: Zhou et al., "Deep Interest Network for Click-Through Rate Prediction", KDD 2018, section 4.3.

    Args:
        name: of the parameters, which begin with it.
        first: number of its first layer, see Layer.
        width: of a target and of an element.
        hidden: units of each layer, one or more.
        activations: of each.
        softmax: weights of an example add up to 1, or 0 where its history is empty; else they are any numbers, as in the paper.

    Attributes:
        specs: the dense parameters.
    """

    def __init__(
        self, name: str, first: int, width: int, hidden: tuple[int, ...], activations: tuple[str, ...], softmax: bool
    ) -> None:
        self._name = name
        self._width = width
        self._softmax = softmax
        sizes = [4 * width, *hidden]
        self._layers = [
            Layer(f"{name}_{i}", first + i - 1, sizes[i - 1], sizes[i], activation)
            for i, activation in enumerate(activations, 1)
        ]
        self._output = Layer(f"{name}_output", first + len(hidden), sizes[-1], 1, "linear")
        last = self._output.specs()
        # A bias moves all elements alike, which a softmax undoes.
        self.specs: tuple[DenseSpec, ...] = (
            *(spec for layer in self._layers for spec in layer.specs()),
            *(spec for spec in last if not (softmax and spec.name.endswith("bias"))),
        )

    def of_rows(self, parameters: Parameters, rows: jax.Array, history: History) -> Attended:
        """Return histories of rows float32[n, dim], with width = fields * dim; a distinct row is multiplied once."""
        fields, count, length = history.rows.shape
        index = history.rows.reshape(fields, count * length)
        vectors = gathered(rows, index).reshape(count, length, self._width)
        shares = projected(rows, index, self._element_kernel(parameters)).reshape(count, length, -1)
        return Attended(vectors, shares, history.mask, history.owner)

    def of_vectors(
        self, parameters: Parameters, vectors: jax.Array, mask: jax.Array, owner: jax.Array | None = None
    ) -> Attended:
        """Return histories whose elements are given, float32[n, L, width]; see Attended."""
        return Attended(vectors, vectors @ self._element_kernel(parameters), mask, owner)

    def weights(self, parameters: Parameters, target: jax.Array, elements: Attended) -> jax.Array:
        """Return the weight of each element, float32[batch, L], 0 where there is none.

        Args:
            target: float32[batch, width].
        """
        first = self._layers[0]
        of_target, _, of_difference, _ = jnp.split(parameters[f"{first.name}.kernel"], 4)
        in_common = target @ (of_target + of_difference) + parameters[f"{first.name}.bias"]
        own = {name: values for name, values in parameters.items() if name.startswith(f"{self._name}_")}
        owner, mask = elements.owner, places_of(elements.mask, elements.owner)
        if all(layer.activation == "dice" for layer in self._layers):
            scores = scored(
                own, [layer.name for layer in self._layers], self._output.name, ElementInputs(target, in_common, *elements)
            )
        else:
            every = own, jnp.concatenate([target, in_common], axis=1), (elements.vectors, elements.shares), elements.mask, owner
            if any(ACTIVATIONS[layer.activation].follows for layer in self._layers):  # which see the batch, not a part of it
                scores = whole(partial(self._scores, mask=mask), *every)
            else:
                scores = of_elements(self._scores, *every)
        if not self._softmax:
            return jnp.where(mask, scores + parameters[f"{self._output.name}.bias"], 0)
        weights = jax.nn.softmax(jnp.where(mask, scores, NEVER), axis=1)
        return jnp.where(mask, weights, 0)

    def _scores(
        self, parameters: Parameters, target: jax.Array, elements: tuple[jax.Array, ...], mask: jax.Array | None = None
    ) -> jax.Array:
        """Return the weight of each element before the output's bias, float32[...].

        Args:
            target: float32[..., width + units], what an example's elements have in common: its vector, and its share of the
                first layer.
            elements: their vectors and shares, as in Attended.
        """
        first, *others = self._layers
        vectors, shares = elements
        *_, of_product = jnp.split(parameters[f"{first.name}.kernel"], 4)
        x = shares + (vectors * target[..., : self._width]) @ of_product + target[..., self._width :]
        x = activated(first.activation, branch(parameters, first.name), x, mask)
        for layer in others:
            x = layer.apply(parameters, x, None, mask)
        return (x @ parameters[f"{self._output.name}.kernel"])[..., 0]

    def pooled(self, parameters: Parameters, target: jax.Array, elements: Attended) -> jax.Array:
        """Return the weighted sum of each example's history, float32[batch, width]; zeros of an empty one."""
        vectors = of_examples(elements.vectors, elements.owner)
        return jnp.einsum("bl,bld->bd", self.weights(parameters, target, elements), vectors)

    def _element_kernel(self, parameters: Parameters) -> jax.Array:
        _, of_element, of_difference, _ = jnp.split(parameters[f"{self._layers[0].name}.kernel"], 4)
        return of_element - of_difference
