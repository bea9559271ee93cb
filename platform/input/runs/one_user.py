"""Rows of one user: a request's candidates, whose slots of the user are held once, for a network that has a tower of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...ps.compiled.aligned import filled
from ..cutting import NO_CODES
from .groups import NO_VALUES, BatchGroup, Values, bag_rows, padded_groups

if TYPE_CHECKING:
    from ....algorithms.base import Layout
    from ..batches import Batch

FEW_VALUES = 1024
"""A user's values of arrays are padded to so many, which one program serves; more take a slow first request."""


class UserSlots(NamedTuple):
    """The slots of the user.

    Attributes:
        lines: for each line of `Batch.scalar`, whether it is one.
        bags: the numbers of those among multi-valued slots.
        all_bags: there are no other multi-valued slots.
    """

    lines: tuple[bool, ...]
    bags: tuple[int, ...]
    all_bags: bool

    @classmethod
    def of(cls, names: Sequence[str], layout: Layout, intercept: bool) -> UserSlots | None:
        """Return them by their names; None where there are none."""
        if not names:
            return None
        bags = tuple(number for number, name in enumerate(layout.bags) if name in names)
        lines = (*(name in names for name in layout.scalar), *([False] if intercept else []))
        return cls(lines, bags, len(bags) == len(layout.bags))

    def held_once(self, batch: Batch) -> Batch:
        """Return a batch with the slots of the user held once, where all its rows agree in them; else as it is.

        Args:
            batch: flat, or with nothing but histories in common.
        """
        examples, mine = batch.examples, np.array(self.lines, np.bool_)
        codes = batch.scalar[mine]
        values = self._values(batch)
        if examples < 2 or values is None or (codes[:, :examples] != codes[:, :1]).any():
            return batch
        absent, size = len(batch.keys), len(batch.weight)
        common = np.full((len(codes), padded_groups(1)), absent, np.int32)
        common[:, 0] = codes[:, 0]
        padded = len(batch.bags.rows)
        of_user = bag_rows(values.codes, values, min(padded, FEW_VALUES) if len(values.codes) <= FEW_VALUES else padded, absent)
        owner = filled(np.zeros(examples, np.int32), size, common.shape[1] - 1)
        group = batch.group or BatchGroup(common, owner, of_user, self.lines, self.bags, ())
        group = group._replace(scalar=common, values=of_user, lines=self.lines, bags=self.bags)
        return batch._replace(scalar=batch.scalar[~mine], bags=self._others(batch), group=group)

    def _mine(self, batch: Batch) -> NDArray[np.bool_]:
        """Return which of a batch's values of multi-valued slots are of the user: padding, of weight 0, is not."""
        mine: NDArray[np.bool_] = np.isin(batch.bags.slot, self.bags) & (np.asarray(batch.bags.weight) != 0)
        return mine

    def _values(self, batch: Batch) -> Values | None:
        """Return the values of multi-valued slots that all rows have alike; None where they differ."""
        if not self.bags:
            return NO_VALUES
        rows, example, slot, weight = map(np.asarray, batch.bags)
        at = np.flatnonzero(self._mine(batch))
        each, rest = divmod(len(at), batch.examples)
        if rest:
            return None
        of_rows = at[np.argsort(example[at], kind="stable")].reshape(batch.examples, each)
        first = of_rows[0]
        if (example[of_rows] != np.arange(batch.examples)[:, None]).any():
            return None
        if any((array[of_rows] != array[first]).any() for array in (rows, slot, weight)):
            return None
        return Values(rows[first], np.zeros(each, np.int32), slot[first], weight[first])

    def _others(self, batch: Batch) -> Any:
        """Return the values of other multi-valued slots, as many with padding."""
        absent = len(batch.keys)
        if self.all_bags:
            return bag_rows(NO_CODES, NO_VALUES, 0, absent)
        mine, bags = self._mine(batch), batch.bags
        others = (np.where(mine, 0, array) for array in (bags.example, bags.slot, bags.weight))
        return type(bags)(np.where(mine, np.int32(absent), bags.rows), *others)  # type: ignore[arg-type]
