"""What statements and table functions use of the session that runs them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ...warehouse.models import Models
    from ..engines.base import Engine
    from ..progress import Reporter


class StatementContext(Protocol):
    """What a command runs in: a session, or whatever else has these.

    Attributes:
        engine: runs queries.
        models: the models of the warehouse.
        reporter: receives the progress of trainings.
        resumes: whether a statement whose training was interrupted goes on with it instead of beginning again.
    """

    engine: Engine
    models: Models
    reporter: Reporter
    resumes: bool


Context = StatementContext  # the name it had; until the next version
