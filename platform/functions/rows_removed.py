"""Updates that remove rows: prune, forget."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from ..errors import OptionError, Subject
from ..operators.base import Context, Rows
from ..options import Part, option
from .base import RowTable, Update
from .weights_changed import of_slot


@dataclass(frozen=True)
class PruneOptions:
    """Options of prune."""

    below: float = option(1e-4, "rows all of whose elements have |w| below it are removed", minimum=0)
    slot: str = option("", "features of this slot alone")
    table: str = option("", "whose rows; the first table's by default, which take a key's rows in the others along")


def prune(options: PruneOptions, table: RowTable) -> Update:
    """Remove rows whose weights are small."""
    chosen = of_slot(options.slot, "prune", table)

    def ends(rows: Rows, context: Context) -> jax.Array:
        return chosen(context) & (jnp.abs(rows["w"]) < options.below).all(1)

    return Update(ends=ends)


@dataclass(frozen=True)
class ForgetOptions:
    """Options of forget."""

    slot: str = option("", "features of this slot")
    table: str = option("", "whose rows; the first table's by default, which take a key's rows in the others along")


def forget(options: ForgetOptions, table: RowTable) -> Update:
    """Remove all rows of a slot, with their statistics.

    Raises:
        OptionError: no slot is named.
    """
    if not options.slot:
        subject = Subject("APPLY", "forget", "slot")
        raise OptionError(f"{subject} is missing: name the slot whose rows are to go, like slot = campaign.", subject=subject)
    chosen = of_slot(options.slot, "forget", table)
    return Update(ends=lambda rows, context: chosen(context), trials=True)


PRUNE = Part("prune", PruneOptions, prune)
FORGET = Part("forget", ForgetOptions, forget)
