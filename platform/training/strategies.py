"""How a training learns, by the kind of its algorithm. This is the only place that distinguishes the kinds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ...algorithms.base import Algorithm, Graph, Online, Packaged, Solved
from ..engines.tasks import Tasks
from ..input.columns import Columns
from .estimates import Cost
from .monitor import Monitor
from .plan import Plan
from .prepared import Prepared
from .recipe import Recipe
from .row_files.saved import SavedShards

if TYPE_CHECKING:
    from ...warehouse.draft import Draft
    from ...warehouse.version import Version


class Strategy(Protocol):
    """A way to learn; a module of its room."""

    def check(self, plan: Plan, recipe: Recipe, columns: Columns, parent: Version | None, tasks: Tasks | None) -> None:
        """Refuse what this strategy cannot do, before anything starts.

        Args:
            parent: the version that is continued.
            tasks: where it would run; None: in this process.

        Raises:
            StatementError: names the clause and what to do.
        """
        ...

    def cost(self, prepared: Prepared) -> Cost:
        """Return what a training costs, judged by a sample of its input, which is learned and forgotten.

        Raises:
            DataError: what would stop the training at that sample.
        """
        ...

    def learn(self, prepared: Prepared, tasks: Tasks | None, draft: Draft, monitor: Monitor) -> SavedShards:
        """Learn from the input, here or on an engine's tasks, and write what was learned into the version."""
        ...


def strategy_of(algorithm: Algorithm) -> Strategy:
    """Return how an algorithm learns; those that few trainings need are loaded when one does."""
    match algorithm.learns:
        case Online():
            from .online import strategy as online

            return online
        case Solved():
            from .solved import strategy as solved

            return solved
        case Packaged():
            from .packaged import strategy as packaged

            return packaged
        case Graph():
            from .graphs import strategy as graphs

            return graphs
