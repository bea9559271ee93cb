"""Gated recurrent units over histories, with the update gate of attention or without.

XLA runs the steps of a loop on CPUs slowly: small products, and copies of all that the loop goes through. So on CPUs the whole
recurrence is a custom call, native/recurrence.cpp; elsewhere, and in exports, it is a loop in JAX.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from ...platform.operators.base import DenseSpec
from .dense_layers import Parameters
from .lookups import Saved, called

UNITS = 16  # the native recurrence has a multiple of them


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
        """Return its dense parameters: the parameters of u, r and c side by side."""

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
        """Return the state after each element, float32[batch, L, units]; where there is no element, the state before it.

        Args:
            products: float32[batch, L, 3 * units], of elements and the kernel.
            mask: bool[batch, L].
            attention: float32[batch, L]; an element with 0 passes no gradient to it, as softmax would pass none on.
        """
        recurrent, bias = parameters[f"{self.name}.recurrent"], parameters[f"{self.name}.bias"]
        shares = mask.astype(jnp.float32) if attention is None else jnp.where(mask, attention, 0)
        if not (rest := -self.units % UNITS):
            return states_of(products, shares, recurrent, bias)
        filled = (
            jnp.pad(of.reshape(*of.shape[:-1], 3, self.units), [(0, 0)] * of.ndim + [(0, rest)])
            for of in (products, recurrent, bias)
        )
        products, recurrent, bias = (of.reshape(*of.shape[:-2], -1) for of in filled)
        return states_of(products, shares, jnp.pad(recurrent, ((0, rest), (0, 0))), bias)[:, :, : self.units]


def steps(products: jax.Array, shares: jax.Array, recurrent: jax.Array, bias: jax.Array) -> jax.Array:
    """Return what Gru.states does, step by step."""
    units = len(recurrent)

    def step(state: jax.Array, element: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        of_element, share = element
        of_state = state @ recurrent
        gates = jax.nn.sigmoid(of_element[:, : 2 * units] + of_state[:, : 2 * units])
        update, reset = share[:, None] * gates[:, :units], gates[:, units:]
        candidate = jnp.tanh(of_element[:, 2 * units :] + reset * of_state[:, 2 * units :])
        state = state + update * (candidate - state)
        return state, state

    start = jnp.zeros((products.shape[0], units), jnp.float32)  # of any size where a graph is exported
    _, states = jax.lax.scan(step, start, ((products + bias).swapaxes(0, 1), shares.T))
    return states.swapaxes(0, 1)


@jax.custom_vjp
def states_of(products: jax.Array, shares: jax.Array, recurrent: jax.Array, bias: jax.Array) -> jax.Array:
    return called("recur", steps, products, shares, recurrent, bias)  # type: ignore[no-any-return]


def states_forward(*arguments: jax.Array) -> tuple[jax.Array, Saved]:
    states = states_of(*arguments)
    return states, (*arguments, states)


def states_backward(saved: Saved, gradient: jax.Array) -> Saved:
    def anywhere(*given: jax.Array) -> Saved:
        *arguments, _, gradient = given
        return jax.vjp(steps, *arguments)[1](gradient)  # type: ignore[no-any-return]

    return called("recur_gradients", anywhere, *saved, gradient)  # type: ignore[no-any-return]


states_of.defvjp(states_forward, states_backward)
