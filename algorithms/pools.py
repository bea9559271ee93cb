"""Arrays pooled by clusters, as further slots of any network: elements that are features, and vectors."""

from __future__ import annotations

import dataclasses
import functools
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ..platform.dependent import when
from ..platform.errors import Subject
from ..platform.options import option
from .base import Algorithm, Parameters
from .blocks.histories import HISTORIES
from .blocks.vector_arrays import VECTOR_ARRAYS
from .derived_slots import VECTORS, Make, dim_of, seeing, with_rows
from .inputs import Inputs, Layout
from .layers.lookups import gathered
from .layers.side_network import SMALLEST
from .layers.vlad import VLADS, NetVlad, NextVlad

POOLED, FRAMES = "pooled", "frames"
POOLS = (when(POOLED), when(FRAMES))
NUMBER, STEP = 500, 4  # of the initial values of the first pool, after any other layer's; step per pool


@dataclass(frozen=True, kw_only=True)
class PooledOptions:
    """The options of a network that pools arrays by clusters; a base of its options."""

    pooled: tuple[str, ...] = option(
        (),
        "arrays of categories that are pooled by clusters: fields of one sequence, or one array of structs",
        role="sequence",
        length="pooled_length",
    )
    frames: tuple[str, ...] = option(
        (),
        "arrays of vectors, such as the frames of a film, that are pooled by clusters",
        role="vectors",
        length="pooled_length",
    )
    pooled_length: int = option(
        100, "elements of such an array that are read, the last ones", minimum=1, maximum=10_000, needs=POOLS
    )
    vlad: str = option(
        "netvlad", "how they are pooled: nextvlad has fewer numbers for wide vectors", choices=tuple(VLADS), needs=POOLS
    )
    clusters: int = option(8, "clusters, each of which has a slot or more", minimum=1, maximum=1024, needs=POOLS)


class Pool(NamedTuple):
    """A set of vectors of each example, and how it is pooled.

    Attributes:
        slots: the names of the further slots, as many lines of `dim` floats.
        history: which of HISTORIES; None: `array` is one of VECTOR_ARRAYS.
    """

    vlad: NetVlad | NextVlad
    slots: tuple[str, ...]
    history: int | None
    array: int

    def of(self, parameters: Parameters, inputs: Inputs, dim: int) -> jax.Array:
        """Return what is pooled of each example, float32[batch, slots, dim]."""
        if self.history is None:
            x, mask = inputs.block(VECTOR_ARRAYS)[self.array]
            x = x * jax.lax.rsqrt((x * x).mean(axis=2, keepdims=True) + SMALLEST)
        else:
            rows, mask, _ = inputs.block(HISTORIES)[self.history]
            fields, batch, length = rows.shape
            x = gathered(parameters[VECTORS], rows.reshape(fields, batch * length)).reshape(batch, length, fields * dim)
        flat = self.vlad.apply(parameters, x, mask)
        wide = jnp.pad(flat, ((0, 0), (0, len(self.slots) * dim - self.vlad.outputs)))
        return wide.reshape(flat.shape[0], len(self.slots), dim)


def with_pools(make: Make, layout: Layout) -> Make:
    """Return how an algorithm is made some of whose options name arrays that are pooled."""
    groups = [name for name, _ in layout.block(HISTORIES)]
    arrays = [place for place, slot in enumerate(layout.block(VECTOR_ARRAYS)) if slot.option == FRAMES]
    return functools.partial(pooling, make) if POOLED in groups or arrays else make


def pooling(make: Make, options: Any, layout: Layout) -> Algorithm:
    """Make an algorithm with its pools; one whose options of these names mean something else as it is."""
    if not isinstance(options, PooledOptions):
        return make(options, layout)
    pools: list[Pool] = []
    given: Any = options  # of a network, which has `dim`
    dim: int = given.dim

    def add(name: str, width: int, history: int | None, array: int) -> None:
        vlad = VLADS[options.vlad](f"{options.vlad}.{name}", NUMBER + STEP * len(pools), width, options.clusters)
        lines = range(1, 1 - (-vlad.outputs // dim))
        pools.append(Pool(vlad, tuple(f"{name}:{line}" for line in lines), history, array))

    for place, (name, slots) in enumerate(layout.block(HISTORIES)):
        if name == POOLED:
            add(POOLED, len(slots) * dim, place, 0)
    for place, slot in enumerate(layout.block(VECTOR_ARRAYS)):
        if slot.option == FRAMES:
            add(slot.name, slot.dim, None, place)
    return pooled(make, options, layout, pools)


def pooled(make: Make, options: Any, layout: Layout, pools: list[Pool]) -> Algorithm:
    """Make an algorithm that sees what is pooled as further slots, in place of the arrays."""
    histories = [place for place, (name, _) in enumerate(layout.block(HISTORIES)) if name != POOLED]
    arrays = [place for place, slot in enumerate(layout.block(VECTOR_ARRAYS)) if slot.option != FRAMES]
    made = make(
        dataclasses.replace(options, **{POOLED: (), FRAMES: ()}),
        layout._replace(scalar=(*layout.scalar, *(slot for pool in pools for slot in pool.slots)))
        .having(HISTORIES, (layout.block(HISTORIES)[place] for place in histories))
        .having(VECTOR_ARRAYS, (layout.block(VECTOR_ARRAYS)[place] for place in arrays)),
    )
    dim, own = dim_of(made, Subject("USING", option=POOLED)), len(layout.scalar)

    def see(parameters: Parameters, inputs: Inputs) -> tuple[Parameters, Inputs]:
        first, batch, lines, rows = parameters[VECTORS].shape[0], inputs.batch, [], []
        for pool in pools:
            slots = len(pool.slots)
            rows.append(pool.of(parameters, inputs, dim).reshape(batch * slots, dim))
            lines.append(first + jnp.arange(slots, dtype=jnp.int32)[:, None] + slots * jnp.arange(batch, dtype=jnp.int32))
            first += batch * slots
        scalar = jnp.asarray(inputs.scalar)
        seen = inputs._replace(scalar=jnp.concatenate([scalar[:own], *lines, scalar[own:]]))
        seen = seen.having(HISTORIES, (inputs.block(HISTORIES)[place] for place in histories))
        seen = seen.having(VECTOR_ARRAYS, (inputs.block(VECTOR_ARRAYS)[place] for place in arrays))
        return with_rows(parameters, made, jnp.concatenate(rows)), seen

    return seeing(made, see, [spec for pool in pools for spec in pool.vlad.specs])
