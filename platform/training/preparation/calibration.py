"""Stage calibration: what CALIBRATE and WITH (negatives_kept) need of a training."""

from __future__ import annotations

from ...errors import StatementError, Subject
from ..clauses.calibrate import CALIBRATE
from ..clauses.publish import PUBLISH
from ..plan import Plan
from .base import Preparation, Stage

BY = Subject("CALIBRATE", option="by")
KEPT = Subject("WITH", option="negatives_kept")


def check(given: Preparation) -> Preparation:
    """Refuse predictions that are no probabilities, or that nobody makes before their rows are learned from, and a column that
    no biases can be told of.
    """
    plan, algorithm = given.plan, given.recipe.algorithm
    calibrate = plan.clause(CALIBRATE)
    if (calibrate is not None or plan.settings.negatives_kept is not None) and not algorithm.classifier:
        subject = KEPT if calibrate is None else CALIBRATE.subject
        raise StatementError(
            f"{subject} is for probabilities of labels of 0 or 1, and {plan.algorithm.name} predicts something else here. "
            "Leave it out.",
            subject=subject,
        )
    if calibrate is None:
        return given
    if not algorithm.learns.serves:
        raise StatementError(
            f"{CALIBRATE} needs predictions of rows before these are learned from, and {plan.algorithm.name} learns from all "
            "rows at once. Take an algorithm that learns batch by batch, such as xftrl or xnn.",
            subject=CALIBRATE.subject,
        )
    if plan.clause(PUBLISH) is not None:
        raise StatementError(
            f"{CALIBRATE} is fitted at the end of a training, and PUBLISH EVERY has none. Run CONTINUE WITH (until = "
            "'available') every so often, or leave either out.",
            subject=CALIBRATE.subject,
        )
    check_column(plan, calibrate.by, [slot.name for slot in given.columns.scalar])
    return given


def check_column(plan: Plan, by: tuple[str, ...], names: list[str]) -> None:
    """Refuse columns that no biases can be told of."""
    if len(by) > 1:
        raise StatementError(
            f"{BY} takes one column, got {', '.join(by)}. CROSS them, and name the cross.",
            subject=BY,
        )
    if by and by[0].lower() not in map(str.lower, names):
        raise StatementError(
            f"{BY} takes a categorical column that the model learns from, with one value a row: "
            f"{', '.join(names) or 'it has none'}; got {by[0]}.",
            subject=BY,
        )


STAGE = Stage(check)
