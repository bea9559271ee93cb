"""The slots that the options of an algorithm name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp

from ..platform.errors import OptionError, Subject, suggestion
from .base import Layout


def places(names: Sequence[object], slots: Sequence[str], option: Subject, first: int = 0, again: bool = False) -> list[int]:
    """Return where the slots that an option names stand among all, compared without case.

    Args:
        first: where `slots` begin among all.
        again: a slot may be named again, such as the target of two histories.

    Raises:
        OptionError: a name is none of the slots, or a slot is named twice.
    """
    lowered, given = [slot.lower() for slot in slots], [str(name).lower() for name in names]
    if not again and (twice := next((name for name in given if given.count(name) > 1 and name in lowered), None)):
        raise OptionError(f"{option} names the slot {slots[lowered.index(twice)]} twice; name it once.", subject=option)
    for name in names:
        if str(name).lower() not in lowered:
            message = f"{option} names {name!r}, which is not a slot.{suggestion(str(name), slots)}"
            raise OptionError(message, subject=option)
    return [first + lowered.index(str(name).lower()) for name in names]


class Groups(NamedTuple):
    """The slots of features whose vectors are summed to one.

    Attributes:
        alone: places of the slots that keep a vector of their own.
        joined: places of the slots of each group.
    """

    alone: tuple[int, ...]
    joined: tuple[tuple[int, ...], ...]

    def __len__(self) -> int:
        """The number of vectors that are left."""
        return len(self.alone) + len(self.joined)

    def sums(self, slots: jax.Array) -> jax.Array:
        """Return float32[batch, len(self), dim] of float32[batch, slots, dim]: slots that stand alone, then groups."""
        if not self.joined:
            return slots
        sums = [slots[:, jnp.array(group)].sum(axis=1, keepdims=True) for group in self.joined]
        return jnp.concatenate([slots[:, jnp.array(self.alone, jnp.int32)], *sums], axis=1)


def groups_of(groups: tuple[object, ...], layout: Layout, option: Subject) -> Groups:
    """Return the groups of an option such as `groups = ((user, city), (item, brand))`.

    Raises:
        OptionError: it has another form, or names what is no slot of features, or a slot twice.
    """
    if not all(isinstance(group, tuple) and group for group in groups):
        message = f"{option} expects groups of slots in parentheses, like ((user, city), (item, brand)); got {groups}."
        raise OptionError(message, subject=option)
    slots = (*layout.scalar, *layout.bags)
    joined = tuple(tuple(places(group, slots, option)) for group in groups if isinstance(group, tuple))
    taken = [place for group in joined for place in group]
    twice = next((slots[place] for place in taken if taken.count(place) > 1), None)
    if twice is not None:
        raise OptionError(f"{option} names {twice} twice; a slot is in one group.", subject=option)
    return Groups(tuple(place for place in range(len(slots)) if place not in taken), joined)
