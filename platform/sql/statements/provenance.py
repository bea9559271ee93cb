"""SHOW PROVENANCE OF MODEL and REPRODUCE MODEL."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from ..base import Statement
from ..cursor import Cursor
from ..versions import NamedVersion, read_version
from .resume import plan_of

if TYPE_CHECKING:
    from ..context import StatementContext


@dataclass(frozen=True)
class ShowProvenance:
    """What a version was made from."""

    named: NamedVersion

    def run(self, context: StatementContext) -> pa.Table:
        from ...provenance.shown import shown

        with context.models.reading(*self.named) as version:
            return shown(version, context.models)


@dataclass(frozen=True)
class Reproduce:
    """A version that is trained again, and compared."""

    named: NamedVersion

    def run(self, context: StatementContext) -> pa.Table:
        from ...provenance.reproduce import reproduce

        with context.models.reading(*self.named) as version:
            return reproduce(version, plan_of(version.manifest), context.engine, context.models, context.reporter)


def parse_shown(cursor: Cursor) -> ShowProvenance:
    return ShowProvenance(read_version(cursor))


def parse_reproduce(cursor: Cursor) -> Reproduce:
    return Reproduce(read_version(cursor))


SHOW_PROVENANCE = Statement(
    "SHOW PROVENANCE OF MODEL",
    "SHOW PROVENANCE OF MODEL name [VERSION n]",
    "Show what a version was made from: its statement, ancestors, sources, options and how each was chosen, packages, builds, "
    "processor, and its files, each with a digest where it has one.",
    parse_shown,
)
REPRODUCE = Statement(
    "REPRODUCE MODEL",
    "REPRODUCE MODEL name [VERSION n]",
    "Train a version again, in a folder that is removed afterwards, and compare: files by their bytes, or, where several "
    "workers ran freely, metrics with the spread of three runs. It fails if they differ, and reports first "
    "what has changed since.",
    parse_reproduce,
)
