"""Vectors with ids, such as embeddings of images and texts, as further fields of the slots whose values have them.

An algorithm does not know of them: its layout has a slot `image:images` beside the slot `image` that has vectors `images`, and
its rows, after those that were pulled, what a network makes of the vector of each. A target or history that names the slot has
the further field.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp

from ..platform.errors import Subject
from .base import Algorithm, Parameters
from .blocks.bags import BagRows
from .blocks.histories import HISTORIES, HistorySlots
from .derived_slots import Make, dim_of, seeing, with_rows
from .inputs import Inputs, Layout, SideVectors
from .layers.side_network import SideNetwork

SUBJECT = Subject("VECTORS")
KEPT = 32  # of recent trainings


def with_sides(make: Make, layout: Layout) -> Make:
    """Return how an algorithm is made some of whose slots have vectors with ids."""
    return functools.partial(seeing_sides, make) if layout.sides else make


def seeing_sides(make: Make, options: Any, layout: Layout) -> Algorithm:
    """Make an algorithm that sees vectors with ids as further slots."""
    made = make(named(options, layout), further(layout))
    dim = dim_of(made, SUBJECT)
    networks = tuple(SideNetwork(side, number, dim) for number, side in enumerate(layout.sides))

    def see(parameters: Parameters, inputs: Inputs) -> tuple[Parameters, Inputs]:
        more = [outputs_of(network, parameters, side) for network, side in zip(networks, inputs.sides, strict=True)]
        seen = with_slots(inputs, layout)  # first: jax2onnx 0.17 asks what it joined last how many rows there are
        return with_rows(parameters, made, jnp.concatenate(more)), seen

    specs = [spec for network in networks for spec in network.specs]
    return dataclasses.replace(seeing(made, see, specs), sides=networks)


def further(layout: Layout) -> Layout:
    """Return the layout with the further slots, each after the slots of its place."""
    scalar, bags = list(layout.scalar), list(layout.bags)
    histories = {name: list(slots) for name, slots in layout.block(HISTORIES)}
    for side in layout.sides:
        for slot in side.slots:
            places = [scalar, bags, *histories.values()]
            next(place for place in places if slot in place).append(f"{slot}:{side.name}")
    seen = layout._replace(scalar=tuple(scalar), bags=tuple(bags), sides=())
    return seen.having(HISTORIES, (HistorySlots(name, tuple(slots)) for name, slots in histories.items()))


def named(options: Any, layout: Layout) -> Any:
    """Return options that name slots with the further ones beside them, in the order in which slots stand there."""
    changed = {}
    for field in dataclasses.fields(options):
        value = getattr(options, field.name)
        if isinstance(value, tuple) and all(isinstance(name, str) for name in value):
            own = {name.lower() for name in value}
            more = (f"{slot}:{s.name}" for s in layout.sides for slot in in_order(s.slots, value) if slot.lower() in own)
            changed[field.name] = (*value, *more)
    return dataclasses.replace(options, **changed)


def in_order(slots: tuple[str, ...], names: tuple[str, ...]) -> list[str]:
    """Return slots as names have them one after the other, then others."""
    lowered = [name.lower() for name in names]
    return sorted(slots, key=lambda slot: lowered.index(slot.lower()) if slot.lower() in lowered else len(lowered))


def outputs_of(network: SideNetwork, parameters: Parameters, side: SideVectors) -> jax.Array:
    """Return the network's output for each row's vector, float32[n, dim]."""
    if side.outputs is not None:
        return jnp.asarray(side.outputs)
    assert side.of_row is not None
    if (made := parameters.get(made_name(network.name))) is not None:
        return made[side.of_row]
    assert side.values is not None
    return network.apply(parameters, jnp.asarray(side.values))[side.of_row]


def made_name(vectors: str) -> str:
    """Return the name of the parameter that has what shards made of the distinct vectors of a batch."""
    return f"outputs:{vectors}"


@functools.lru_cache(maxsize=KEPT)
def over_outputs(algorithm: Algorithm) -> Algorithm:
    """Return an algorithm for workers whose shards run the networks over vectors: outputs come as parameters, by `made_name`,
    and the networks' own parameters do not."""
    own = {spec.name for network in algorithm.sides for spec in network.specs}
    return dataclasses.replace(algorithm, dense=tuple(spec for spec in algorithm.dense if spec.name not in own))


def with_slots(inputs: Inputs, layout: Layout) -> Inputs:
    """Return the inputs with the further slots, in the order of `further`."""
    scalar, index = [jnp.asarray(inputs.scalar[: len(layout.scalar)])], [inputs.bags.rows]
    slots, weights, bags = [inputs.bags.slot], [inputs.bags.weight], len(layout.bags)
    histories = [[jnp.asarray(history.rows)] for history in inputs.block(HISTORIES)]
    for number, side in enumerate(layout.sides, 1):
        side_vectors = inputs.sides[number - 1]
        like = side_vectors.outputs if side_vectors.of_row is None else side_vectors.of_row
        assert like is not None
        first = number * like.shape[0]
        for slot in side.slots:
            if slot in layout.scalar:
                place = layout.scalar.index(slot)
                scalar.append(scalar[0][place : place + 1] + first)
            elif slot in layout.bags:
                own, none = jnp.asarray(inputs.bags.slot) == layout.bags.index(slot), jnp.zeros_like(inputs.bags.weight)
                index.append(inputs.bags.rows + first)
                slots.append(jnp.full_like(inputs.bags.slot, bags))
                weights.append(jnp.where(own, inputs.bags.weight, none))  # jax2onnx 0.17 takes 0 for a double
                bags += 1
            else:
                group, place = next((g, s.index(slot)) for g, (_, s) in enumerate(layout.block(HISTORIES)) if slot in s)
                histories[group].append(histories[group][0][place : place + 1] + first)
    seen = inputs._replace(
        scalar=jnp.concatenate([*scalar, inputs.scalar[len(layout.scalar) :]]),
        bags=BagRows(*map(jnp.concatenate, (index, [inputs.bags.example] * len(index), slots, weights))),
        sides=(),
    )
    beside = zip(inputs.block(HISTORIES), histories, strict=True)
    return seen.having(HISTORIES, (history._replace(rows=jnp.concatenate(rows)) for history, rows in beside))
