"""SHOW ALGORITHMS, SHOW OPERATORS, DESCRIBE ALGORITHM, DESCRIBE OPERATOR, DESCRIBE TRAIN MODEL: the parts and their options."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ... import parts
from ...errors import Position, StatementError
from ...options import describe
from ...training.plan import Settings
from ..base import Statement
from ..cursor import Cursor

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from ..context import StatementContext


@dataclass(frozen=True)
class ShowParts:
    """The algorithms or the operators, one row each."""

    kind: parts.PartKind

    def run(self, context: StatementContext) -> pa.Table:
        rows = [(part.name, part.summary, "xpsql") for part in self.kind.built_in()]
        rows += [self.plugin_row(point) for point in self.kind.plugged()]
        return pa.table(list(zip(*rows, strict=True)), names=[self.kind.name, "help", "package"])

    def plugin_row(self, point: EntryPoint) -> tuple[str, str, str]:
        package = point.dist.name if point.dist else point.module
        try:
            return (point.name, self.kind.load(point, None).summary, package)
        except StatementError as error:
            return (point.name, error.message, package)


@dataclass(frozen=True)
class DescribePart:
    """The options of one algorithm or operator."""

    kind: parts.PartKind
    name: str
    position: Position

    def run(self, context: StatementContext) -> pa.Table:
        part = self.kind.find(self.name, self.position)
        return options_table(part.options)


@dataclass(frozen=True)
class DescribeTrain:
    """The options of WITH."""

    def run(self, context: StatementContext) -> pa.Table:
        return options_table(Settings)


def options_table(options: type[Any]) -> pa.Table:
    """Return one row per declared option: option, type, default, range, help."""
    listed = describe(options)
    return pa.table(
        {
            "option": [o.name for o in listed],
            "type": [o.type for o in listed],
            "default": [shown(o.default) for o in listed],
            "range": [o.range for o in listed],
            "help": [o.help for o in listed],
        },
        schema=pa.schema([(name, pa.string()) for name in ("option", "type", "default", "range", "help")]),
    )


def shown(default: Any) -> str:
    """Return a default as it is written in a statement."""
    if isinstance(default, tuple):
        return f"({', '.join(map(shown, default))})"
    if isinstance(default, str):
        return f"'{default}'"
    if default is None or isinstance(default, bool):
        return {True: "true", False: "false", None: "null"}[default]
    return f"{default:g}" if isinstance(default, float) else str(default)


def show_algorithms(cursor: Cursor) -> ShowParts:
    return ShowParts(parts.ALGORITHM)


def show_operators(cursor: Cursor) -> ShowParts:
    return ShowParts(parts.OPERATOR)


def describe_algorithm(cursor: Cursor) -> DescribePart:
    return describe_part(parts.ALGORITHM, cursor)


def describe_operator(cursor: Cursor) -> DescribePart:
    return describe_part(parts.OPERATOR, cursor)


def describe_part(kind: parts.PartKind, cursor: Cursor) -> DescribePart:
    position = cursor.position()
    return DescribePart(kind, cursor.identifier(f"the name of an {kind.name}"), position)


def describe_train(cursor: Cursor) -> DescribeTrain:
    return DescribeTrain()


SHOW_ALGORITHMS = Statement("SHOW ALGORITHMS", "SHOW ALGORITHMS", "List the algorithms that USING takes.", show_algorithms)
SHOW_OPERATORS = Statement("SHOW OPERATORS", "SHOW OPERATORS", "List the operators that OPERATORS takes.", show_operators)
DESCRIBE_ALGORITHM = Statement(
    "DESCRIBE ALGORITHM", "DESCRIBE ALGORITHM name", "List an algorithm's options.", describe_algorithm
)
DESCRIBE_OPERATOR = Statement("DESCRIBE OPERATOR", "DESCRIBE OPERATOR name", "List an operator's options.", describe_operator)
DESCRIBE_TRAIN = Statement("DESCRIBE TRAIN MODEL", "DESCRIBE TRAIN MODEL", "List the options of WITH.", describe_train)
