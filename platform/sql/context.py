"""The part of a session that statements and table functions use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ...warehouse.models import Models
    from ..engines.base import Engine
    from ..progress import Reporter


class StatementContext(Protocol):
    """The context of a command: a session, or any object with these attributes.

    Attributes:
        engine: runs queries.
        models: the models of the warehouse.
        reporter: receives the progress of trainings.
        resumes: whether a statement whose training was interrupted resumes it instead of starting again.
    """

    models: Models
    reporter: Reporter
    resumes: bool

    @property
    def engine(self) -> Engine: ...


Context = StatementContext  # the name it had; until the next version
