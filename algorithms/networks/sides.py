"""Two sides of a network: a tower of what the rows of a request share, one of the rest, and the layers in which they meet."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import jax

from ...platform.dependent import when
from ...platform.errors import OptionError, Subject
from ...platform.operators.base import DenseSpec
from ...platform.options import option
from ..base import Layout, Parameters
from ..layers.dense_layers import Layer
from ..layers.stacked import Stacked
from ..positions import places
from .tower import check_hidden

TOWERED = (when("user_tower"),)
FIRST_USER, FIRST_ITEM = 601, 651  # the numbers of first layers, so that their initial values differ from other layers'


@dataclass(frozen=True, kw_only=True)
class SideOptions:
    """The options of a network with towers for its sides; a base of its options."""

    user: tuple = option(  # type: ignore[type-arg]
        (), "categorical slots and arrays that the rows of a request share, such as (user, city, clicked)", needs=TOWERED
    )
    user_tower: tuple = option(  # type: ignore[type-arg]
        (),
        "units of each layer over the slots of `user`, such as (128, 64), computed once for neighbouring rows that share "
        "them; () for none",
    )
    item_tower: tuple = option(  # type: ignore[type-arg]
        (), "units of each layer over all else, before both meet in `hidden`; () for none", needs=TOWERED
    )


class SideTowers:
    """The towers of both sides, whose layers are rectified: a layer that looks at a batch, or drops units, would see something
    else of groups than of examples.

    Args:
        inputs: width of what goes in: a vector of `dim` elements for each slot, and more.
        algorithm: for messages.

    Attributes:
        width: of what comes out.
        user: names of the slots of the user's tower; none where there is no tower.
        specs: the dense parameters.

    Raises:
        OptionError: a layer without a number of units, or slots that no tower can have.
    """

    def __init__(self, options: SideOptions, layout: Layout, inputs: int, dim: int, algorithm: str) -> None:
        self._lines, self._dim, self.user, self.width = len(layout.scalar), dim, tuple[str, ...](), inputs
        self._user, self._item, self._places = list[Layer](), list[Layer](), list[int]()
        if options.user_tower:
            chosen = user_places(options.user, layout, Subject("USING", algorithm, "user"))
            check_hidden(options.user_tower, "user_tower", algorithm)
            check_hidden(options.item_tower, "item_tower", algorithm)
            rest = inputs - len(chosen) * dim
            self._places, self.user = chosen, tuple(layout.slots[place] for place in chosen)
            self._user = rectified("user", FIRST_USER, (len(chosen) * dim, *options.user_tower))
            self._item = rectified("item", FIRST_ITEM, (rest, *options.item_tower))
            self.width = (self._item[-1].units if self._item else rest) + self._user[-1].units
        self.specs: tuple[DenseSpec, ...] = tuple(spec for layer in (*self._user, *self._item) for spec in layer.specs())

    def apply(self, parameters: Parameters, x: Stacked) -> Stacked:
        """Return what towers make of the inputs; the user's is computed once for each group that has its slots in common."""
        if not self._user:
            return x
        lines = [place for place in self._places if place < self._lines]
        bags = [place - self._lines for place in self._places if place >= self._lines]
        own, rest = x.divided(lines, [bag * self._dim + element for bag in bags for element in range(self._dim)])
        own, owner = own.of_groups() or (own, None)
        if self._item:
            rest = rest.divided([], [])[0].followed_by(through(self._item, parameters, rest), None)
        return rest.followed_by(through(self._user, parameters, own), owner)


def rectified(name: str, number: int, widths: tuple[int, ...]) -> list[Layer]:
    """Return rectified layers; see Layer."""
    sizes = enumerate(itertools.pairwise(widths))
    return [Layer(f"{name}_{i + 1}", number + i, inputs, units, "relu") for i, (inputs, units) in sizes]


def through(layers: Sequence[Layer], parameters: Parameters, inputs: Stacked) -> jax.Array:
    """Return what layers make of inputs, one or more, float32[n, units]."""
    x = layers[0].apply(parameters, inputs, None)
    for layer in layers[1:]:
        x = layer.apply(parameters, x, None)
    return x


def user_places(names: tuple[object, ...], layout: Layout, subject: Subject) -> list[int]:
    """Return where the slots of the user stand among categorical and multi-valued slots, ascending.

    Raises:
        OptionError: they are none, or all, or one of them is no slot, or not categorical and no array.
    """
    slots = (*layout.scalar, *layout.bags)
    if not names:
        message = f"{subject} expects the slots that user_tower sees, which a request's rows share, like user = (user, city)."
        raise OptionError(message, subject=subject)
    found = places(names, layout.slots, subject)
    other = next((layout.slots[place] for place in found if place >= len(slots)), None)
    if other is not None:
        message = (
            f"{subject} names {other}; a user's tower sees categorical slots, arrays and maps. Leave {other} out: the layers "
            "in which user and item meet see it."
        )
        raise OptionError(message, subject=subject)
    if len(set(found)) == len(layout.slots):
        message = f"{subject} names all slots. Leave out those that differ between the rows of a request, such as the item's."
        raise OptionError(message, subject=subject)
    return sorted(set(found))
