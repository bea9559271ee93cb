"""SHOW ALGORITHMS, OPERATORS, FOLDS and UPDATES, DESCRIBE of one of these, DESCRIBE TRAIN MODEL: parts and their options."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ... import parts
from ...errors import Position, StatementError
from ...options import describe
from ...training.clauses.settings import Settings
from ..base import Statement
from ..cursor import Cursor

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from ..context import StatementContext


@dataclass(frozen=True)
class ShowParts:
    """The parts of a kind, one row each."""

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
    """The options of one part."""

    kind: parts.PartKind
    name: str
    position: Position

    def run(self, context: StatementContext) -> pa.Table:
        if self.kind is parts.ALGORITHM and self.name.lower() == "auto":  # a search over algorithms, and none of them
            from ...training.auto.options import AutoOptions

            return options_table(AutoOptions)
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


def shows(kind: parts.PartKind, taker: str) -> Statement:
    """Return the statement that lists the parts of a kind."""
    name = f"SHOW {kind.name.upper()}S"
    return Statement(name, name, f"List the {kind.name}s that {taker} takes.", lambda cursor: ShowParts(kind))


def describes(kind: parts.PartKind) -> Statement:
    """Return the statement that lists the options of a part."""
    article = "an" if kind.name[0] in "aou" else "a"

    def parse(cursor: Cursor) -> DescribePart:
        position = cursor.position()
        return DescribePart(kind, cursor.identifier(f"the name of {article} {kind.name}"), position)

    name = f"DESCRIBE {kind.name.upper()}"
    return Statement(name, f"{name} name", f"List {article} {kind.name}'s options.", parse)


def describe_train(cursor: Cursor) -> DescribeTrain:
    return DescribeTrain()


SHOW_ALGORITHMS, DESCRIBE_ALGORITHM = shows(parts.ALGORITHM, "USING"), describes(parts.ALGORITHM)
SHOW_OPERATORS, DESCRIBE_OPERATOR = shows(parts.OPERATOR, "OPERATORS"), describes(parts.OPERATOR)
SHOW_FOLDS, DESCRIBE_FOLD = shows(parts.FOLD, "ML.FOLD"), describes(parts.FOLD)
SHOW_UPDATES, DESCRIBE_UPDATE = shows(parts.UPDATE, "APPLY"), describes(parts.UPDATE)
DESCRIBE_TRAIN = Statement("DESCRIBE TRAIN MODEL", "DESCRIBE TRAIN MODEL", "List the options of WITH.", describe_train)
