"""DELETE FROM HISTORY: a user's events go, from every version, and do not come again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from ...errors import StatementError
from ...histories.stored import StoredHistories
from ...options import Value
from ...spark_types import type_words
from ..base import Statement
from ..cursor import Cursor

if TYPE_CHECKING:
    from ..context import StatementContext

GRAMMAR = "DELETE FROM HISTORY name WHERE user = value"
SCHEMA = pa.schema([("history", pa.string()), ("version", pa.int64()), ("deleted", pa.int64())])


@dataclass(frozen=True)
class DeleteFromHistory:
    """The events of one user are deleted."""

    name: str
    column: Value
    user: Value

    def run(self, context: StatementContext) -> pa.Table:
        from ...histories.bound import image_of
        from ...histories.deleting import delete_user

        histories = StoredHistories(context.models.warehouse)
        definition = histories.definition(self.name)
        if self.column.value.lower() != definition.partition.lower():
            raise StatementError(
                f"The history {self.name} is PARTITION BY {definition.partition}, and events are deleted by it; "
                f"got {self.column.value}.",
                self.column.position,
            )
        with histories.changing(self.name):
            kind = image_of(histories.current(self.name)).user_type
            deleted = delete_user(histories, definition, context.engine, self.of_type(kind))
        rows = [{"history": self.name, "version": histories.current(self.name).number, "deleted": deleted}]
        return pa.Table.from_pylist(rows, SCHEMA)

    def of_type(self, kind: pa.DataType) -> pa.Array:
        """Return the user in the type of users.

        Raises:
            StatementError: it is of another type.
        """
        value = self.user.value
        if isinstance(value, str) == pa.types.is_integer(kind) or isinstance(value, bool | float | tuple) or value is None:
            message = f"Users of the history {self.name} are {type_words(kind)}, got {value!r}."
            raise StatementError(message, self.user.position)
        return pa.array([value], kind)


def parse(cursor: Cursor) -> DeleteFromHistory:
    name = cursor.identifier("the name of a history").lower()
    cursor.expect("WHERE")
    position = cursor.position()
    column = Value(cursor.identifier("the column of PARTITION BY"), position)
    cursor.expect("=")
    if cursor.next_kind == "word":
        raise cursor.expected("a user, a text or a whole number")
    position = cursor.position()
    return DeleteFromHistory(name, column, Value(cursor.value(), position))


DELETE_FROM_HISTORY = Statement(
    "DELETE FROM HISTORY",
    GRAMMAR,
    "Delete a user's events from a history and all its versions, now and whenever they come again; what models have learned of "
    "them stays.",
    parse,
)
