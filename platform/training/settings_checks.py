"""Settings of WITH that an algorithm has no use for are refused."""

from __future__ import annotations

from ...algorithms.base import Algorithm
from ..errors import StatementError
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
    if algorithm.baseline is None or algorithm.intercept is None or algorithm.multiclass:
        name = plan.algorithm.name
        begins = (
            "each class begins at its own share" if algorithm.multiclass else f"{name} does not begin at the mean of the labels"
        )
        message = f"{BASE_RATE} = {given:g} has no effect: {begins}."
        raise StatementError(message, subject=BASE_RATE)
    if algorithm.classifier and not 0 < given < 1:
        message = f"{BASE_RATE} = {given:g} must be between 0 and 1, the part of labels that are 1."
        raise StatementError(message, subject=BASE_RATE)
