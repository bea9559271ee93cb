"""Settings of WITH that an algorithm has no use for are refused."""

from __future__ import annotations

from ...algorithms.base import Algorithm, Online
from ..errors import StatementError
from .plan import BASE_RATE, SYNC, TARGET, Plan


def check_settings(plan: Plan, algorithm: Algorithm) -> None:
    """Refuse settings without a meaning for an algorithm.

    Raises:
        StatementError: says which, and what to do.
    """
    check_base_rate(plan, algorithm)
    check_target(plan, algorithm)
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


def check_target(plan: Plan, algorithm: Algorithm) -> None:
    """Refuse a target that is no duration, or by which nothing can be planned."""
    if plan.settings.target_seconds is None:
        return
    if plan.publish is not None:
        message = f"{TARGET} is for a training that ends, and PUBLISH EVERY makes one that stays. Leave either out."
        raise StatementError(message, subject=TARGET)
    if not isinstance(algorithm.learns, Online):
        raise StatementError(
            f"{TARGET} needs an algorithm that learns batch by batch, as xftrl does; {plan.algorithm.name} learns from all "
            "rows at once. Leave it out.",
            subject=TARGET,
        )
