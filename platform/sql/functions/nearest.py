"""ML.NEAREST: the features nearest to one."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from ...errors import NotAvailableError
from ..base import Call, TableFunction

if TYPE_CHECKING:
    from ...session import Session


def run(session: Session, call: Call) -> NoReturn:
    raise NotAvailableError(
        "ML.NEAREST is parsed but not available yet: models of fm have vectors, ML.WEIGHTS shows them.", call.position
    )


NEAREST = TableFunction(
    "NEAREST",
    "ML.NEAREST(MODEL name, slot, value, k)",
    "The k features nearest to one, for models with vectors (not available yet).",
    "none",
    ("a slot", "a value", "a number of features"),
    run,
)
