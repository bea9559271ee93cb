"""The strategy of algorithms that are another package: its checks, and where it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...engines.tasks import Tasks
from ...errors import StatementError, Subject
from ...input.columns import Columns
from ...operators.base import NO_BATCHES
from ..estimates import Cost
from ..monitor import Monitor
from ..plan import Plan
from ..prepared import Prepared
from ..recipe import Recipe, used_operators
from ..row_files.saved import SavedShards
from ..solved import strategy as solved
from .learn import learn_here, learn_on

if TYPE_CHECKING:
    from ....warehouse.draft import Draft
    from ....warehouse.version import Version


def check(plan: Plan, recipe: Recipe, columns: Columns, parent: Version | None, tasks: Tasks | None) -> None:
    """See Strategy: refuse what a package cannot do, and clauses that have no effect without batches."""
    for operator in used_operators(plan):
        if not operator.offers:
            solved.refuse_operator(plan, operator, NO_BATCHES)
    solved.check_rates(plan, recipe, tasks)
    solved.check_batches(plan)
    solved.check_validated(plan, recipe)
    if parent is not None:
        check_slots(columns, parent)
    if tasks is not None and plan.settings.encrypt and plan.settings.workers != 1:
        raise StatementError(
            f"The workers of {plan.algorithm.name} talk by its package's own connections, which are not encrypted; with "
            "encrypt = true say workers = 1.",
            subject=Subject("WITH", option="encrypt"),
        )


def check_slots(columns: Columns, parent: Version) -> None:
    """Refuse slots that the package has not learned from."""
    known = {slot.name for slot in parent.manifest.slots}
    if new := [slot.name for slot in columns.slots if slot.name not in known]:
        raise StatementError(
            f"CONTINUE of {parent.manifest.algorithm.name} takes the slots of version {parent.number}, and no others; the "
            f"query returns {', '.join(new)} too. Name them in IGNORE, or TRAIN a new model."
        )


def learn(prepared: Prepared, tasks: Tasks | None, draft: Draft, monitor: Monitor) -> SavedShards:
    """See Strategy."""
    return learn_here(prepared, draft, monitor) if tasks is None else learn_on(tasks, prepared, draft, monitor)


def cost(prepared: Prepared) -> Cost:
    """See Strategy."""
    from . import cost as sampled  # EXPLAIN alone needs it

    return sampled.cost(prepared)
