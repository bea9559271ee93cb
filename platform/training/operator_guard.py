"""Contract checks of operators while they are traced: shapes must be kept, and errors name the operator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax

from ..blame import blaming
from ..errors import StatementError, Subject
from ..operators.base import Context, Operator, Rows


def checked(operator: Operator) -> Operator:
    """Return an operator whose errors name it, and which is refused where it changes a shape.

    Programs are made by tracing, so that this costs nothing when they run.
    """
    name = operator.name

    def before(gradients: jax.Array, rows: Rows, context: Context) -> tuple[jax.Array, Rows]:
        with blaming("operator", name):
            changed, after_it = operator.before(gradients, rows, context)
            require(name, "before", {**rows, "gradients": gradients}, {**after_it, "gradients": changed})
            return changed, after_it

    def after(old: Rows, new: Rows, context: Context) -> Rows:
        with blaming("operator", name):
            changed = operator.after(old, new, context)
            require(name, "after", new, changed)
            return changed

    def read(rows: Rows, context: Context) -> Rows:
        with blaming("operator", name):
            found = operator.read(rows, context)
            require(name, "read", rows, found)
            return found

    return operator._replace(before=before, after=after, read=read)


def require(name: str, function: str, given: Mapping[str, Any], returned: Mapping[str, Any]) -> None:
    """Refuse what an operator returns in another shape than it was given, or not at all.

    Raises:
        StatementError: names operator, function, and array.
    """
    for array, values in given.items():
        expected, came = values.shape, getattr(returned.get(array), "shape", None)
        if came != expected:
            what = "none" if came is None else f"shape {came}"
            operator = Subject("OPERATORS", name)
            raise StatementError(
                f"{operator} must return {array} of the shape that it was given, {expected}; its {function} returns "
                f"{what}. Repair it, or leave it out.",
                subject=operator,
            )
