"""RATE in TRANSFORM (target encoding): a slot whose rates over earlier examples the operator auto_session offers."""

from __future__ import annotations

from ..errors import Position, StatementError
from ..options import Value
from ..training.clauses.transform import Written
from ..training.clauses.using import Given
from .clauses import Clauses

OPERATOR = "auto_session"


def with_rates(given: Clauses) -> Clauses:
    """Return clauses whose OPERATORS offer the rates that TRANSFORM asks for.

    Raises:
        StatementError: RATE counts another label than the first one, with several priors, or where OPERATORS offers all rates.
    """
    written: Written | None = given["TRANSFORM"].value if "TRANSFORM" in given else None
    rates = [(item.name, item.rate, item.position) for item in written.columns if item.rate] if written else []
    if not rates:
        return given
    label = given["LABEL"].value.columns[0] if "LABEL" in given else "label"
    _, first, place = rates[0]
    for _, rate, position in rates:
        if rate.label.lower() != label.lower():
            refuse(f"RATE counts the first label: write RATE({label}, ...), got RATE({rate.label}, ...).", position)
        if rate.prior != first.prior:
            refuse("The rates of a model have one prior. Give each RATE the same number, or none.", position)
    operators = given["OPERATORS"].value if "OPERATORS" in given else ()
    if any(operator.name.value.lower() == OPERATOR for operator in operators):
        refuse(f"OPERATORS ({OPERATOR}) offers the rates of all slots, or of those it names. Leave RATE or it out.", place)
    options = {} if first.prior is None else {"prior": Value(first.prior, place)}
    options["slots"] = Value(tuple(name for name, *_ in rates), place)
    added = Given(Value(OPERATOR, place), options)
    return {**given, "OPERATORS": Value((added, *operators), given["OPERATORS"].position if operators else place)}


def refuse(message: str, position: Position) -> None:
    raise StatementError(message, position)
