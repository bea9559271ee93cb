"""Learning batch by batch: what a statement may ask of it, and where it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...engines.tasks import Tasks
from ...errors import StatementError, Subject
from ...input.columns import Columns
from ..clauses.column_roles import TIME
from ..clauses.using import OPERATORS
from ..estimates import Cost
from ..monitor import Monitor
from ..plan import Plan
from ..prepared import Prepared
from ..recipe import Recipe, idle
from ..row_files.saved import SavedShards
from . import local
from .plateau import learn_dropping
from .rebuilding import check_rebuild, learn_rounds

if TYPE_CHECKING:
    from ....warehouse.draft import Draft
    from ....warehouse.version import Version


def check(plan: Plan, recipe: Recipe, columns: Columns, parent: Version | None, tasks: Tasks | None) -> None:
    """See Strategy: refuse operators that need what the statement does not give, and options that they leave without use."""
    check_optimizer(plan, recipe)
    check_time(plan, recipe)
    check_rebuild(plan, recipe)


def check_time(plan: Plan, recipe: Recipe) -> None:
    """Refuse operators that need event times where there are none."""
    for programs in recipe.programs:
        if programs.chain.needs_time and plan.clause(TIME) is None:
            raise StatementError(
                f"{OPERATORS} ({programs.chain.name}) has a part that needs event times; name their column with TIME.",
                subject=OPERATORS.subject,
            )


def check_optimizer(plan: Plan, recipe: Recipe) -> None:
    """Refuse options of USING without effect, but those that a continued version hands on."""
    lost = sorted(idle(plan, recipe) - plan.inherited)
    if lost:
        option = Subject("USING", plan.algorithm.name, lost[0])
        raise StatementError(
            f"{option} has no effect: it sets the algorithm's own optimizer, and {OPERATORS} names {recipe.optimizer} in its "
            f"place, for all tables. Write its options there, as in {OPERATORS} ({recipe.optimizer} (option = value)), or "
            f"leave out {', '.join(lost)} or {recipe.optimizer}.",
            subject=option,
        )


def learn(prepared: Prepared, tasks: Tasks | None, draft: Draft, monitor: Monitor) -> SavedShards:
    """See Strategy; the best pass, where it is kept, becomes the version's."""

    def learn_here(given: Prepared) -> SavedShards:
        if tasks is None:
            return local.learn_here(given, draft, monitor)
        from ..tasks.learn import learn_on  # the transport takes a tenth of a second to load

        return learn_on(tasks, given, draft, monitor)

    if prepared.drops:
        held = learn_dropping(prepared, learn_here, draft, monitor)
    else:
        held = learn_rounds(prepared, learn_here, draft, monitor) if prepared.rebuilds else learn_here(prepared)
    if monitor.kept is not None:
        draft.adopt(draft.best(monitor.kept.pass_number))
    return held


def cost(prepared: Prepared) -> Cost:
    """See Strategy."""
    from . import cost as sampled  # EXPLAIN alone needs it

    return sampled.cost(prepared)
