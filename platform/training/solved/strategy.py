"""The strategy of solvers, which learn all examples at once: its checks, and where it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from ...engines.tasks import Tasks
from ...errors import StatementError, Subject
from ...input.columns import Columns
from ...operators.base import Operator
from ..clauses.evaluate import EVALUATE
from ..clauses.settings import PASSES
from ..clauses.validate import VALIDATE
from ..estimates import Cost
from ..monitor import Monitor
from ..online.strategy import check_time
from ..plan import Plan
from ..prepared import Prepared
from ..recipe import Recipe, used_operators
from ..row_files.saved import SavedShards
from .solve import solve_here, solve_on

if TYPE_CHECKING:
    from ....warehouse.draft import Draft
    from ....warehouse.version import Version


def check(plan: Plan, recipe: Recipe, columns: Columns, parent: Version | None, tasks: Tasks | None) -> None:
    """See Strategy: refuse clauses that have no effect without batches."""
    for operator in used_operators(plan):
        if isinstance(operator.whole, str):
            refuse_operator(plan, operator, operator.whole)
    check_rates(plan, recipe, tasks)
    check_batches(plan)
    check_validated(plan, recipe)


def check_validated(plan: Plan, recipe: Recipe) -> None:
    """Refuse to validate by rates that rows held out do not have."""
    if plan.clause(VALIDATE) is not None and recipe.programs[0].chain.offers:
        raise StatementError(
            f"{VALIDATE} scores rows by a version's own rates, and {plan.algorithm.name} learns by those before each example. "
            "Leave either out.",
            subject=VALIDATE.subject,
        )


def check_rates(plan: Plan, recipe: Recipe, tasks: Tasks | None) -> None:
    """Refuse what does not go together with operators that offer inputs."""
    check_time(plan, recipe)
    if tasks is not None and recipe.programs[0].chain.offers and (plan.settings.workers or 1) > 1:
        subject = Subject("WITH", option="workers")
        message = (
            f"Rates before each example follow the order of all examples, so that one worker counts them; set {subject} = 1."
        )
        raise StatementError(message, subject=subject)


def refuse_operator(plan: Plan, operator: Operator, reason: str) -> NoReturn:
    """Raise the error of an operator that has no effect on the algorithm."""
    subject, what = Subject("OPERATORS", operator.name), f"{plan.algorithm.name} learns all examples at once"
    raise StatementError(f"{subject} {reason}; {what}. Leave it out.", subject=subject)


def check_batches(plan: Plan) -> None:
    """Refuse clauses about batches and passes."""
    name = plan.algorithm.name
    if plan.clause(EVALUATE) is not None:
        message = f"{EVALUATE} scores batches before they are learned from; {name} learns all examples at once."
        raise StatementError(message, subject=EVALUATE.subject)
    if (plan.settings.passes or 1) > 1:
        message = f"{PASSES} = {plan.settings.passes} has no effect: {name} iterates until it converges. See its options."
        raise StatementError(message, subject=PASSES)


def learn(prepared: Prepared, tasks: Tasks | None, draft: Draft, monitor: Monitor) -> SavedShards:
    """See Strategy."""
    return solve_here(prepared, draft, monitor) if tasks is None else solve_on(tasks, prepared, draft, monitor)


def cost(prepared: Prepared) -> Cost:
    """See Strategy."""
    from . import cost as sampled  # EXPLAIN alone needs it

    return sampled.cost(prepared)
