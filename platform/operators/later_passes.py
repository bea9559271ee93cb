"""Smaller steps in all passes but the first."""

from __future__ import annotations

from dataclasses import dataclass

import jax.numpy as jnp

from ..options import Part, option
from .base import Context, Operator, Rows, TableSpec


@dataclass(frozen=True)
class LaterPassesOptions:
    """Options of later_passes."""

    rate: float = option(0.3, "factor of the optimizer's steps from the second pass on", minimum=0, maximum=1)


def later_passes(options: LaterPassesOptions, table: TableSpec) -> Operator:
    """Multiply the optimizer's steps by a factor from the second pass on.

    It moves weights less; the memory of the optimizer is as without it. It needs WITH (passes = 2) or more.

    Source: lower rates for rows that have been learned, as arXiv 2505.05605 (2025) compares them with new rows for each pass.
    """

    def after(old: Rows, new: Rows, context: Context) -> Rows:
        rate = jnp.where(context.draw[1] > 0, options.rate, 1.0)
        return {**new, "w": new["w"] - (1 - rate) * (new["w"] - old["w"])}

    return Operator({}, after=after, name="later_passes", later=("later_passes",))


LATER_PASSES = Part("later_passes", LaterPassesOptions, later_passes)
