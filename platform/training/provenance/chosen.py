"""The options of a training as it used them, and who chose each: the user, a default or a rule."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from ....warehouse.entries import OptionEntry, SizesEntry
from ...input.columns import Columns
from ...options import adapted, written_name
from ..clauses.with_options import WITH
from ..plan import Plan

BY_RULE = ("batch_size", "passes", "shards", "workers", "read_ahead", "base_rate")
"""Settings that rows, cores or what a training turns out to need decide where the statement does not."""


def chosen_options(plan: Plan, columns: Columns, sizes: SizesEntry) -> tuple[OptionEntry, ...]:
    """Return every option of USING, OPERATORS and WITH with its value."""
    found = [*of_settings(plan, sizes)]
    for use in plan.operators:
        found += of_part("OPERATORS", use.name, use.options, use.options, use.given)
    if plan.algorithm.part is None:  # else no statement names its options
        use, suited = plan.algorithm, adapted(plan.algorithm.options, columns.layout)
        found += of_part("USING", use.name, use.options, suited, use.given)
    return tuple(found)


def of_part(clause: str, name: str, options: Any, suited: Any, given: Collection[str]) -> Iterator[OptionEntry]:
    """Yield the options of an algorithm or operator.

    Args:
        suited: with the values that suit the slots, where nobody gave one.
    """
    said = {option.lower() for option in given}
    for field in dataclasses.fields(options):
        value, option = getattr(suited, field.name), written_name(field.name)
        user, default = option in said, value == getattr(options, field.name)
        yield OptionEntry(clause, name, option, value, "user" if user else "default" if default else "rule")


def of_settings(plan: Plan, sizes: SizesEntry) -> Iterator[OptionEntry]:
    """Yield the options of WITH; without shards all examples are learned at once."""
    said, ran = plan.clause(WITH), decided(sizes)
    for name, value in dataclasses.asdict(plan.settings).items():
        rule = value is None and name in BY_RULE
        yield OptionEntry("WITH", "", name, ran.get(name, value), "user" if name in said else "rule" if rule else "default")


def decided(sizes: SizesEntry) -> Mapping[str, int]:
    """Return the settings that a training ran with, whether the statement gave them or its rows decided them."""
    size = {"batch_size": sizes.batch_size} if sizes.shards else {}
    found = {**size, "passes": sizes.passes, "shards": sizes.shards, "workers": sizes.workers}
    return {name: number for name, number in found.items() if number}
