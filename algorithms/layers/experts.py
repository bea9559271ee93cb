"""Mixtures of experts for several labels: each label weighs what networks, its own and shared ones, make of an example."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from ...platform.operators.base import DenseSpec
from .dense_layers import Parameters, dropped
from .parallel import Parallel
from .stacked import Stacked

NUMBERS = 10  # of layers that an expert may have, for random numbers


class Mixed(NamedTuple):
    """What comes out of a level: float32[batch, labels, units] for labels, float32[batch, units] for the shared experts of the
    next level; None after the last."""

    of_labels: jax.Array
    shared: jax.Array | None


class Level(NamedTuple):
    """A level of experts, and a gate for each label over its own and the shared ones.

    Attributes:
        labels: how many.
        own: experts of each label; 0 makes a mixture of shared experts alone.
        shared: experts that all labels have.
        experts: all of them, each label's own first, label by label.
        gates: of the labels.
        shared_gate: over all experts, for the shared experts of the next level; None of the last level.
        gate_dropout: the share of a gate's weights that a training step leaves out.
    """

    labels: int
    own: int
    shared: int
    experts: Parallel
    gates: Parallel
    shared_gate: Parallel | None
    gate_dropout: float

    @staticmethod
    def of(
        number: int,
        labels: int,
        own: int,
        shared: int,
        inputs: int,
        hidden: tuple[int, ...],
        activations: tuple[str, ...],
        dropout: float,
        gate_dropout: float,
        last: bool,
        norm: bool,
    ) -> Level:
        """Return level `number`, from 1 on; the other arguments are as in Parallel and above."""
        name, count, first = f"level_{number}", labels * own + shared, number * 1000
        experts = Parallel(f"{name}.experts", first, count, inputs, hidden, activations, 0, dropout, norm)
        gates = Parallel(f"{name}.gates", first + 100, labels, inputs, (), (), own + shared)
        shared_gate = None if last else Parallel(f"{name}.shared_gate", first + 200, 1, inputs, (), (), count)
        return Level(labels, own, shared, experts, gates, shared_gate, gate_dropout)

    def specs(self) -> tuple[DenseSpec, ...]:
        """Return its dense parameters."""
        shared = () if self.shared_gate is None else self.shared_gate.specs()
        return (*self.experts.specs(), *self.gates.specs(), *shared)

    def apply(self, parameters: Parameters, x: jax.Array | Stacked | Mixed, random: jax.Array | None) -> Mixed:
        """Return what labels, and the next level, see of an example.

        Args:
            x: float32[batch, inputs], or what the level before it gives.
            random: as in Inputs.
        """
        if isinstance(x, Mixed):
            assert x.shared is not None  # of a level that is not the last
            for_shared, for_gates = x.shared[:, None], x.of_labels
            parts = [jnp.repeat(x.of_labels, self.own, axis=1), jnp.repeat(for_shared, self.shared, axis=1)]
            made = self.experts.apply(parameters, jnp.concatenate(parts, axis=1), random)
        else:
            for_shared = for_gates = x  # type: ignore[assignment]
            made = self.experts.apply(parameters, x, random)
        batch, owned = made.shape[0], self.labels * self.own
        weights = self._weights(self.gates, parameters, for_gates, random)
        of_labels = jnp.einsum("bls,bsu->blu", weights[:, :, self.own :], made[:, owned:])
        if self.own:
            own = made[:, :owned].reshape(batch, self.labels, self.own, self.experts.units)
            of_labels += jnp.einsum("blk,blku->blu", weights[:, :, : self.own], own)
        if self.shared_gate is None:
            return Mixed(of_labels, None)
        of_all = self._weights(self.shared_gate, parameters, for_shared, random)
        return Mixed(of_labels, jnp.einsum("bn,bnu->bu", of_all[:, 0], made))

    def _weights(self, gate: Parallel, parameters: Parameters, x: jax.Array | Stacked, random: jax.Array | None) -> jax.Array:
        weights = jax.nn.softmax(gate.apply(parameters, x, None), axis=2)
        return dropped(weights, self.gate_dropout, random, gate.number) if self.gate_dropout and random is not None else weights
