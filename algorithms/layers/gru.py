"""Gated recurrent units over histories, with the update gate of attention or without."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from ...platform.operators.base import DenseSpec
from .dense import Parameters

UNROLLED = 4  # steps in the body of the loop, which XLA fuses


class Gru(NamedTuple):
    """A recurrent layer whose state goes through the elements of a history, the oldest first.

        u, r = sigmoid(W x + U h + b);  c = tanh(W x + r * (U h) + b);  h <- (1 - a u) h + a u c

    a is the weight that attention gives the element, 1 without attention. With a = 0 an element leaves the state as it is. The
    authors' code has u as the share that is kept, and scales that, (1 - a) u: there an element of weight 0 replaces the state
    by c, another model.

    Source: Cho et al., "Learning Phrase Representations using RNN Encoder-Decoder", EMNLP 2014; AUGRU: Zhou et al., "Deep
    Interest Evolution Network for Click-Through Rate Prediction", AAAI 2019, section 4.3.

    Attributes:
        name: its parameters' names begin with it and a dot.
        number: of the layer in its network, for its first values.
        inputs, units: widths.
    """

    name: str
    number: int
    inputs: int
    units: int

    def specs(self) -> tuple[DenseSpec, ...]:
        """Return its dense parameters: those of u, r and c side by side."""

        def init(part: int, inputs: int, seed: int) -> jax.Array:
            key = jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), self.number), part)
            limit = self.units**-0.5
            return jax.random.uniform(key, (inputs, 3 * self.units), minval=-limit, maxval=limit)

        return (
            DenseSpec(f"{self.name}.kernel", (self.inputs, 3 * self.units), lambda seed: init(0, self.inputs, seed)),
            DenseSpec(f"{self.name}.recurrent", (self.units, 3 * self.units), lambda seed: init(1, self.units, seed)),
            DenseSpec(f"{self.name}.bias", (3 * self.units,)),
        )

    def kernel(self, parameters: Parameters) -> jax.Array:
        """Return W, float32[inputs, 3 * units]; the products of all elements with it are computed before the first step."""
        return parameters[f"{self.name}.kernel"]

    def states(
        self, parameters: Parameters, products: jax.Array, mask: jax.Array, attention: jax.Array | None = None
    ) -> jax.Array:
        """Return the state after each element, float32[batch, L, units]; where there is no element, that before it.

        Args:
            products: float32[batch, L, 3 * units], of elements and the kernel.
            mask: bool[batch, L].
            attention: float32[batch, L].
        """
        recurrent, shares = parameters[f"{self.name}.recurrent"], mask.astype(jnp.float32)
        if attention is not None:
            shares = jnp.where(mask, attention, 0)
        driven = products + parameters[f"{self.name}.bias"]

        def step(state: jax.Array, element: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            of_element, share = element
            of_state = state @ recurrent
            gates = jax.nn.sigmoid(of_element[:, : 2 * self.units] + of_state[:, : 2 * self.units])
            update, reset = share[:, None] * gates[:, : self.units], gates[:, self.units :]
            candidate = jnp.tanh(of_element[:, 2 * self.units :] + reset * of_state[:, 2 * self.units :])
            state = state + update * (candidate - state)
            return state, state

        start = jnp.zeros((mask.shape[0], self.units), jnp.float32)
        _, states = jax.lax.scan(step, start, (driven.swapaxes(0, 1), shares.T), unroll=UNROLLED)
        return states.swapaxes(0, 1)
