"""A second vector for informative features: the dimension of a feature grows with what is known about it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ...platform.dependent import when
from ...platform.operators.base import Operator, TableSpec
from ...platform.operators.lifetimes.admit import AdmitOptions, admit
from ...platform.options import option
from .initial import uniform

LONG = "long_vectors"


@dataclass(frozen=True, kw_only=True)
class LongOptions:
    """The options of second vectors; a base of an algorithm's options."""

    long_dim: int = option(0, "elements of a second vector, for informative features; 0 for none", minimum=0, maximum=1024)
    long_information: float = option(
        10.0, "information that a feature must exceed to have it, in nats", minimum=0, needs=(when("long_dim"),)
    )


def long_tables(options: LongOptions, outputs: int = 1, scale: float = 0.0) -> tuple[TableSpec, ...]:
    """Return the table of second vectors; none where they are not asked for.

    Args:
        outputs: so many vectors stand side by side.
        scale: standard deviation of new ones; products of vectors that are 0 would stay so.
    """
    size = options.long_dim * outputs
    return (TableSpec(LONG, size, uniform(scale, size) if scale else None),) if size else ()


def admits_long(options: LongOptions) -> Callable[[TableSpec], tuple[Operator, ...]]:
    """Return the operators of an algorithm's own tables: admit(information > x) guards the table of second vectors."""

    def operators(table: TableSpec) -> tuple[Operator, ...]:
        return (admit(AdmitOptions(information=options.long_information), table),) if table.name == LONG else ()

    return operators
