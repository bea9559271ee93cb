"""Compact batches: what neighbouring examples have in common is held once, and spread where it meets the rest of an example."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from .blocks.bags import BagRows


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class CommonLines:
    """int32[lines, batch] in the place of an array, whose common lines are held once for each group of neighbouring examples.

    The look-ups of `algorithms/layers/lookups.py` take it as it is; anything else of JAX sees the whole array.

    Attributes:
        shared: int32[k, groups], the common lines.
        own: int32[lines - k, batch], the others.
        owner: int32[batch], the group of each example, ascending.
        common: for each line, whether it is a common one.
    """

    shared: jax.Array
    own: jax.Array
    owner: jax.Array
    common: tuple[bool, ...] = dataclasses.field(metadata={"static": True})

    def __len__(self) -> int:
        return len(self.common)

    @property
    def shape(self) -> tuple[int, int]:
        """(lines, batch)"""
        return len(self.common), len(self.owner)

    def __getitem__(self, which: Any) -> Any:
        """Return the lines of a slice as they are, and anything else as of the whole array."""
        if isinstance(which, int):
            place = self.places(self.common[which])[which % len(self.common)]
            return self.shared[place][self.owner] if self.common[which] else self.own[place]
        if not isinstance(which, slice):
            return self.whole()[which]
        return self.of_lines(range(len(self.common))[which])

    def of_lines(self, chosen: Sequence[int]) -> CommonLines:
        """Return some lines, in the order given."""
        shared = [self.places(True)[line] for line in chosen if self.common[line]]
        own = [self.places(False)[line] for line in chosen if not self.common[line]]
        common = tuple(self.common[line] for line in chosen)
        return CommonLines(of_places(self.shared, shared), of_places(self.own, own), self.owner, common)

    def places(self, common: bool) -> dict[int, int]:
        """Return which lines are common ones, or are not, each with its place among them."""
        return {line: place for place, line in enumerate(i for i, own in enumerate(self.common) if own is common)}

    def whole(self) -> jax.Array:
        """Return the array, int32[lines, batch]."""
        both = jnp.concatenate([self.shared[:, self.owner], self.own])
        order = [*self.places(True), *self.places(False)]
        return of_places(both, sorted(range(len(order)), key=order.__getitem__))

    def __jax_array__(self) -> jax.Array:
        return self.whole()


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Group:
    """What groups of neighbouring examples have in common, beside the common lines of `Inputs.scalar`.

    The values of multi-valued and weighted slots are as in `Inputs`, but for groups in the place of examples.

    Attributes:
        owner: int32[batch], the group of each example, ascending; padded examples have one without anything.
        values: of multi-valued and weighted slots.
        size: how many groups there are, with padding.
        bags: the common multi-valued slots, numbered as in `values`.
    """

    owner: jax.Array
    values: BagRows
    size: int = dataclasses.field(metadata={"static": True})
    bags: tuple[int, ...] = dataclasses.field(metadata={"static": True})


def of_places(array: jax.Array, places: list[int]) -> jax.Array:
    """Return some rows of an array, by a slice where they stand side by side."""
    if not places:
        return array[:0]
    first = places[0]
    if places == list(range(first, first + len(places))):
        return array if len(places) == len(array) else array[first : first + len(places)]
    return array[jnp.array(places)]


def of_columns(array: jax.Array, columns: Sequence[int]) -> jax.Array:
    """Return some columns of float32[n, k], by slices of those that stand side by side."""
    if list(columns) == list(range(array.shape[1])):
        return array
    pieces = [[*piece] for _, piece in itertools.groupby(enumerate(columns), lambda at: at[1] - at[0])]
    slices = [array[:, piece[0][1] : piece[-1][1] + 1] for piece in pieces]
    return jnp.concatenate(slices, axis=1) if slices else array[:, :0]
