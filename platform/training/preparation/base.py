"""The contract of stages: what a preparation has so far, and what each stage does to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import pyarrow as pa

from ....warehouse.entries import Split
from ....warehouse.files import VersionFiles
from ....warehouse.manifest import Manifest
from ...engines.base import Engine, Scan, Staged
from ...engines.tasks import Tasks
from ...input.columns import Columns
from ...input.positives import Taking
from ...input.row_counts import RowCounts
from ..parallelism import Places, Sizes
from ..plan import Plan
from ..prepared import ValidationRows
from ..recipe import Recipe
from ..segment import Segment
from ..trial import NO_TRIAL, Trial

if TYPE_CHECKING:
    from ....warehouse.version import Version


class Mode(Enum):
    """What is prepared.

    LEARN: a version, from its statement. EXPLAIN: nothing is written, and a query that has to be staged is not run.
    RESIDE: increments of a stream, in this process. RESUME: a version that was interrupted, by its manifest.
    """

    LEARN = "learn"
    EXPLAIN = "explain"
    RESIDE = "reside"
    RESUME = "resume"


NOT_YET: Any = None
"""The value of what a later stage finds."""


@dataclass(frozen=True)
class Preparation:
    """A training as far as it is prepared; a comment names the stage that sets a field.

    Attributes:
        parent: the version that it continues.
        tasks: where its shards and workers run; None: in this process.
        manifest: of the interrupted version, where one is resumed.
        note: takes notes for the user.
        quick: EXPLAIN FAST, which learns nothing from a sample.
        trial: what TUNE asks of it.
        found: how the plan's query is read.
        segment: what is taken of the stream that it reads.
    """

    mode: Mode
    plan: Plan
    engine: Engine
    tasks: Tasks | None
    parent: Version | None
    found: Scan | Staged
    segment: Segment | None
    note: Callable[[str], None]
    quick: bool = False
    trial: Trial = NO_TRIAL
    manifest: Manifest | None = None
    folders: VersionFiles = NOT_YET  # where rows are read
    schema: pa.Schema = NOT_YET  # positives
    taking: Taking | None = None  # positives
    columns: Columns = NOT_YET  # roles
    recipe: Recipe = NOT_YET  # roles
    places: Places = NOT_YET  # places
    scan: Scan = NOT_YET  # staging
    splits: list[Split] = field(default_factory=list)  # rows
    counts: RowCounts = NOT_YET  # rows
    sizes: Sizes = NOT_YET  # sizes
    hold_out: ValidationRows | None = None  # hold_out
    baseline: tuple[float, ...] = ()  # baseline
    on_shards: bool = False  # vectors_run

    def having(self, **found: Any) -> Self:
        """Return it with what a stage has found."""
        return replace(self, **found)

    @property
    def resumed(self) -> Manifest | None:
        """The manifest of the version that is resumed; None where another mode is on."""
        return self.manifest if self.mode is Mode.RESUME else None


Step = Callable[[Preparation], Preparation]


def nothing(given: Preparation) -> Preparation:
    return given


class Stage(NamedTuple):
    """A step of every preparation.

    Attributes:
        check: refuses what a statement must not say, before rows are read and before anything is written; it sees `schema`
            and what earlier stages found by it.
        rows: finds what the rows decide, and refuses rows that cannot be learned from. EXPLAIN does without where the query
            would have to be staged.

    Both raise StatementError for what the statement or its rows lack, and DataError for files that cannot be read.
    """

    check: Step = nothing
    rows: Step = nothing
