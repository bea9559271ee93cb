"""The inputs of a network: the vectors of an example's slots, side by side, and other numbers after them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp

from ..shared_inputs import CommonLines, of_columns, of_places
from .lookups import gathered, projected, spread


class Common(NamedTuple):
    """What stands after the vectors of an example and is common to its group.

    Attributes:
        values: float32[groups, k].
        owner: int32[batch], the group of each example.
        columns: where they are among all that stands there.
    """

    values: jax.Array
    owner: jax.Array
    columns: tuple[int, ...]


class Stacked(NamedTuple):
    """Inputs that need not be laid side by side for the first layer.

    Attributes:
        rows: float32[n, dim].
        row_index: int32[lines, batch], the rows of each example.
        more: float32[batch, k], what stands after them, but for what is in `common`.
        common: of a compact batch, whose `row_index` is `CommonLines`; None else.
    """

    rows: jax.Array
    row_index: jax.Array | CommonLines
    more: jax.Array
    common: Common | None = None

    @property
    def width(self) -> int:
        """lines * dim"""
        return len(self.row_index) * self.rows.shape[1]

    def whole(self) -> jax.Array:
        """Return float32[batch, width + k]."""
        more = self.more
        if self.common is not None and self.common.columns:
            both = jnp.concatenate([spread(self.common.values, self.common.owner), more], axis=1)
            order = [*self.common.columns, *self._others(self.common)]
            more = of_places(both.T, sorted(range(len(order)), key=order.__getitem__)).T
        return jnp.concatenate([gathered(self.rows, self.row_index).reshape(more.shape[0], self.width), more], axis=1)

    def times(self, kernel: jax.Array) -> jax.Array:
        """Return the product with float32[width + k, units], float32[batch, units]."""
        of_rows, of_more = kernel[: self.width], kernel[self.width :]
        if self.common is None or not self.common.columns:
            return projected(self.rows, self.row_index, of_rows) + self.more @ of_more
        shared = self.common.values @ of_places(of_more, [*self.common.columns])
        own = self.more @ of_places(of_more, self._others(self.common))
        return projected(self.rows, self.row_index, of_rows, shared) + own

    def divided(self, lines: Sequence[int], columns: Sequence[int]) -> tuple[Stacked, Stacked]:
        """Return the vectors of some lines, with some of the columns after all vectors, and all others.

        Args:
            lines, columns: ascending.
        """
        rest = [line for line in range(len(self.row_index)) if line not in frozenset(lines)]
        others = [column for column in range(self._num_columns) if column not in frozenset(columns)]
        return self._part(lines, columns), self._part(rest, others)

    def of_groups(self) -> tuple[Stacked, jax.Array] | None:
        """Return the same of groups in the place of examples, and the group of each example; None where not all is common."""
        index = self.row_index
        if not isinstance(index, CommonLines) or not all(index.common) or self.more.shape[1]:
            return None
        values = jnp.zeros((index.shared.shape[1], 0)) if self.common is None else self.common.values
        return Stacked(self.rows, index.shared, values), index.owner

    def followed_by(self, values: jax.Array, owner: jax.Array | None) -> Stacked:
        """Return the same with further columns, of examples, or of groups of them, whose owner is given."""
        if owner is None:
            return self._replace(more=jnp.concatenate([self.more, values], axis=1))
        common = self.common or Common(jnp.zeros((len(values), 0)), owner, ())
        places = range(self._num_columns, self._num_columns + values.shape[1])
        both = jnp.concatenate([common.values, values], axis=1)
        return self._replace(common=Common(both, owner, (*common.columns, *places)))

    def _part(self, lines: Sequence[int], columns: Sequence[int]) -> Stacked:
        index = self.row_index
        chosen = index.of_lines(lines) if isinstance(index, CommonLines) else of_places(index, list(lines))
        if self.common is None:
            return Stacked(self.rows, chosen, of_columns(self.more, columns))
        shared = {column: place for place, column in enumerate(self.common.columns)}
        own = {column: place for place, column in enumerate(self._others(self.common))}
        values = of_columns(self.common.values, [shared[column] for column in columns if column in shared])
        places = tuple(place for place, column in enumerate(columns) if column in shared)
        more = of_columns(self.more, [own[column] for column in columns if column in own])
        return Stacked(self.rows, chosen, more, Common(values, self.common.owner, places))

    @property
    def _num_columns(self) -> int:
        return self.more.shape[1] + (0 if self.common is None else len(self.common.columns))

    def _others(self, common: Common) -> list[int]:
        """Return where `more` is among all that stands after the vectors."""
        taken = frozenset(common.columns)
        return [column for column in range(len(taken) + self.more.shape[1]) if column not in taken]
