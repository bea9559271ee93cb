"""Stage limits: what the algorithm's way to learn cannot do, and how many shards and workers there is room for."""

from __future__ import annotations

from ...errors import StatementError
from ...input.side.writing import VECTORS
from ..devices import check_device
from ..parallelism import places_of
from ..plan import Plan
from ..settings_checks import check_given
from ..strategies import strategy_of
from .base import Mode, Preparation, Stage
from .hold_out import check_validation


def check(given: Preparation) -> Preparation:
    """Refuse clauses without effect, and more tasks than there is room for; a training that is resumed has its places."""
    plan, algorithm = given.plan, given.recipe.algorithm
    if given.mode is Mode.RESIDE:
        check_resident(given)
    check_validation(plan, algorithm)
    strategy_of(algorithm).check(plan, given.recipe, given.columns, given.parent, given.tasks)
    if given.resumed is None:
        check_given(plan, algorithm, given.columns, None if given.parent is None else given.parent.manifest)
    check_device(plan, algorithm, any(programs.lives for programs in given.recipe.programs[:1]), given.tasks)
    places = None if given.resumed is not None else places_of(plan.settings, given.tasks, algorithm.serves)
    if given.tasks is not None:
        check_encryption(plan)
    return given.having(places=places)


def check_resident(given: Preparation) -> None:
    """Refuse what a training that publishes versions while it learns cannot have."""
    if not given.recipe.algorithm.serves:
        raise StatementError(
            "PUBLISH EVERY needs an algorithm that learns batch by batch, as xftrl does; this one needs all rows at once."
        )
    if given.columns.sides:
        message = f"{VECTORS} are written with a version, and PUBLISH makes many. Leave either out, or CONTINUE each day."
        raise StatementError(message, subject=VECTORS)


def check_encryption(plan: Plan) -> None:
    """Refuse to encrypt on an engine's tasks where the package for it is not installed."""
    if not plan.settings.encrypt:
        return
    from ...ps.transport.tls import check_installed  # few trainings need it

    check_installed()


STAGE = Stage(check)
