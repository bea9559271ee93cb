"""Options that have no effect on a training are refused: what its algorithm or its slots have no use for."""

from __future__ import annotations

import dataclasses

from ...algorithms.base import Algorithm, Online
from ...warehouse.manifest import Manifest
from ..dependent import ARRAYS, BATCHES, CATEGORIES, COMMON, NUMBERS, check_facts
from ..errors import StatementError, Subject
from ..input.columns import Columns
from ..options import as_tuple
from .plan import BASE_RATE, SYNC, Plan


def check_settings(plan: Plan, algorithm: Algorithm) -> None:
    """Refuse settings without a meaning for an algorithm.

    Raises:
        StatementError: says which, and what to do.
    """
    check_base_rate(plan, algorithm)
    if plan.settings.sync == "hybrid" and not algorithm.dense:
        raise StatementError(
            f"{SYNC} = 'hybrid' keeps workers in step over dense parameters, and {plan.algorithm.name} has none. Take 'asp', "
            "or 'bsp' where results must not depend on timing.",
            subject=SYNC,
        )


def check_base_rate(plan: Plan, algorithm: Algorithm) -> None:
    """Refuse a base rate that labels cannot have, or that has no effect on the algorithm."""
    given = plan.settings.base_rate
    if given is None:
        return
    if algorithm.baseline is None or not algorithm.intercept or algorithm.multiclass:
        name = plan.algorithm.name
        begins = (
            "each class begins at its own share" if algorithm.multiclass else f"{name} does not begin at the mean of the labels"
        )
        message = f"{BASE_RATE} = {given:g} has no effect: {begins}."
        raise StatementError(message, subject=BASE_RATE)
    if algorithm.classifier and not 0 < given < 1:
        message = f"{BASE_RATE} = {given:g} must be between 0 and 1, the part of labels that are 1."
        raise StatementError(message, subject=BASE_RATE)


def check_given(plan: Plan, algorithm: Algorithm, columns: Columns, parent: Manifest | None) -> None:
    """Refuse options of USING and WITH that have no effect on what is learned; those that a version hands on may be.

    Raises:
        OptionError: names the option and what it needs.
    """
    layout = columns.layout
    so = {
        BATCHES: isinstance(algorithm.learns, Online),
        COMMON: algorithm.compact,
        ARRAYS: bool(layout.bags),
        NUMBERS: bool(columns.continuous or layout.vectors),
        CATEGORIES: bool(layout.scalar),
    }
    facts = {fact.name for fact, holds in so.items() if holds}
    given = {name.lower() for name in plan.algorithm.given} - plan.inherited
    check_facts(plan.algorithm.options, given, Subject("USING", plan.algorithm.name), facts)
    before = {} if parent is None else parent.settings
    usual = {field.name: field.default for field in dataclasses.fields(plan.settings)}
    said = {name: getattr(plan.settings, name) for name in usual}
    own = {name for name, value in said.items() if value != usual[name] and value != as_tuple(before.get(name))}
    check_facts(plan.settings, own, Subject("WITH"), facts)
