"""TRANSFORM: the features of a model as one SELECT list, whose text every reader of rows puts around its own query.

What is fitted stands in the list as literals, so that training, scoring and the service evaluate the same expressions.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..engines.row_expressions import is_row_expression
from ..errors import ModelError, StatementError
from ..quoting import quoted

ROWS = "xpsql_input"
"""The name of the rows on which a list is evaluated."""
TAIL = f"\n) AS {ROWS}"
PREFIX = "xpsql_transformed_"
"""The prefix of computed columns that stand beside the columns of a query."""


@dataclass(frozen=True)
class Item:
    """A column that a list computes: Spark SQL with constants as literals, and the columns of the query that it reads."""

    name: str
    sql: str
    reads: tuple[str, ...]


@dataclass(frozen=True)
class Transform:
    """A fitted list.

    Attributes:
        text: as written.
        items: what is computed.
        left_out: what * leaves out of the query's columns; None where there is no *.
        types: the types of columns that items read, in Spark's words.
    """

    text: str
    items: tuple[Item, ...]
    left_out: tuple[str, ...] | None
    types: Mapping[str, str]

    @classmethod
    def of(cls, entry: Mapping[str, Any] | None) -> Transform | None:
        """Return the list in a manifest; None without one.

        Raises:
            ModelError: an item is no expression of one row: no training writes it, and it might read what a reader's rows do
                not have.
        """
        if entry is None:
            return None
        items = tuple(Item(item["name"], item["sql"], tuple(item["reads"])) for item in entry["items"])
        if (wrong := next((item for item in items if not is_row_expression(item.sql)), None)) is not None:
            raise ModelError(
                f"The manifest's TRANSFORM is damaged: {wrong.name} must be an expression of one row, got {wrong.sql!r}. "
                "Restore the manifest from a backup, or TRAIN again."
            )
        left_out = entry["left_out"]
        return cls(entry["text"], items, None if left_out is None else tuple(left_out), dict(entry["types"]))

    @property
    def entry(self) -> dict[str, Any]:
        """What a manifest keeps."""
        return dataclasses.asdict(self)

    @property
    def computed(self) -> dict[str, Item]:
        """The items by name, in lower case."""
        return {item.name.lower(): item for item in self.items}

    def head(self, passing: Sequence[str]) -> str:
        """Return what stands before the query of a training, which TAIL ends.

        Args:
            passing: columns with a role, which are selected in any case.
        """
        left_out = {name.lower() for name in self.left_out or ()}
        kept = [name for name in passing if self.left_out is None or name.lower() in left_out]
        plain = [quoted(name) for name in dict.fromkeys(kept) if name.lower() not in self.computed]
        without = f" EXCEPT ({', '.join(map(quoted, self.left_out))})" if self.left_out else ""
        star = [] if self.left_out is None else [f"*{without}"]
        return f"SELECT {', '.join([*map(selected, self.items), *plain, *star])} FROM ("

    def over(self, query: str, passing: Sequence[str]) -> str:
        """Return the query of a training whose own query is `query`; see head."""
        return self.head(passing) + query + TAIL

    def beside(self, query: str, inputs: Sequence[str]) -> str:
        """Return a query with its columns and, under names with PREFIX, the computed ones among `inputs`."""
        items = [self.computed[name.lower()] for name in inputs if name.lower() in self.computed]
        columns = [f"{item.sql} AS {quoted(PREFIX + item.name)}" for item in items]
        return f"SELECT {', '.join([f'{ROWS}.*', *columns])} FROM ({query}{TAIL}"

    def needed(self, inputs: Sequence[str]) -> list[str]:
        """Return the columns of a query from which some inputs of a model are computed."""
        read = [self.computed[name.lower()].reads if name.lower() in self.computed else (name,) for name in inputs]
        return list({name.lower(): name for names in read for name in names}.values())

    def check(self, names: Sequence[str], inputs: Sequence[str], model: str) -> None:
        """Refuse a query that lacks a column.

        Args:
            names: of the query's columns.
            inputs: what is to be computed.
            model: for the message.

        Raises:
            StatementError: says which item reads it.
        """
        there = {name.lower() for name in names}
        for name in inputs:
            item = self.computed.get(name.lower())
            lacking = [column for column in item.reads if column.lower() not in there] if item is not None else []
            if item is not None and lacking:
                raise StatementError(
                    f"TRANSFORM of {model} computes {item.name} and reads {', '.join(lacking)} for it, which the query does "
                    "not return. Add it."
                )


def selected(item: Item) -> str:
    return f"{item.sql} AS {quoted(item.name)}"
