"""Bags: the values of multi-valued and weighted slots in a batch, of all slots one after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import jax


class BagRows(NamedTuple):
    """The values of multi-valued and weighted slots, with padding.

    Attributes:
        rows: int32[num_values]; the row of each.
        example: int32[num_values]; the example of each, or the group of examples; 0 for padding.
        slot: int32[num_values]; which multi-valued slot each value belongs to, counted from 0.
        weight: float32[num_values]; 1 for multi-valued slots, the map's value for weighted ones, 0 for padding.
    """

    rows: jax.Array
    example: jax.Array
    slot: jax.Array
    weight: jax.Array
