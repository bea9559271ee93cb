"""The contract of engines: where queries run, files are read and tables are written. Text and names are Spark SQL's."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from typing import Any, NamedTuple, Protocol

import pyarrow as pa

from ...warehouse.entries import SourceEntry, Split
from ..errors import StatementError
from .tasks import Tasks

WriteFile = Callable[[Path, pa.RecordBatchReader], int]
"""Writes rows to a file, and returns how many there were."""

INTERNAL = "xpsql_"  # the prefix of views that a statement makes for itself


class Bounds(NamedTuple):
    """Statistics of a file's column, known without reading it.

    Attributes:
        where: the file, or the query whose rows were staged.
        nulls: how many values are NULL, None where it does not say.
        low, high: the least and the largest value, None where it does not say.
    """

    where: str
    nulls: int | None
    low: float | None
    high: float | None


class Scan(Protocol):
    """Rows that a training or prediction reads directly: numbered splits, in order, each the same whenever it is read.

    Attributes:
        schema: the result's columns, in Spark's types.
        staged: the query's rows were materialized first, and are deleted with the statement.
        bounded: all splits are known before the first is read; a stream's are not.
        exact: a split gives as many rows as it declares; where a filter is evaluated on the way it may give fewer.
        most_counted: rows, before filters, up to which those that filters leave are counted one by one: about a second's.
    """

    @property
    def schema(self) -> pa.Schema: ...

    @property
    def staged(self) -> bool: ...

    @property
    def bounded(self) -> bool: ...

    @property
    def exact(self) -> bool: ...

    @property
    def most_counted(self) -> int: ...

    def splits(self) -> list[Split]:
        """List the splits, in order of learning.

        Raises:
            DataError: one cannot be read; names it.
        """
        ...

    def read(self, split: Split, wanted: Sequence[str], rows: int) -> Generator[pa.Table, None, None]:
        """Read a split in tables of `rows` rows, before filters; the last one is shorter.

        Strings arrive as dictionaries where they are stored so.

        Args:
            wanted: result columns to return, by name, compared without case.

        Raises:
            DataError: what is read changed since the training began, or is damaged; names it.
        """
        ...

    def check(self, split: Split) -> None:
        """Refuse a split that changed since it was listed.

        Raises:
            DataError: it changed or is gone; names it.
        """
        ...

    def bounds(self, splits: Sequence[Split], column: str) -> Iterator[Bounds]:
        """Yield the statistics of a column of some splits, without reading them; nothing where filters may drop rows."""
        ...

    def describe(self) -> str:
        """Return a description of how it is read, for EXPLAIN."""
        ...

    def entry(self) -> dict[str, Any]:
        """Return what a manifest keeps of it, as JSON, so that RESUME reads the same splits."""
        ...

    def over(self, splits: Sequence[Split]) -> Scan:
        """Return the same scan over splits that were listed before."""
        ...


@dataclass(frozen=True)
class Staged:
    """A query whose rows have to be materialized before they are read.

    Attributes:
        schema: the result's columns, in Spark's types.
        reason: completes "staged, as ...".
        user: the column by which rows come first, whose rows of one value are read together; "": each row stands for itself.
    """

    schema: pa.Schema
    reason: str
    user: str = ""


class Statements(NamedTuple):
    """The statements that an engine runs.

    Attributes:
        names: their leading words, such as "DROP TABLE".
        others: whether a text that begins with another word may be a statement, too.
        most_tokens: the most words, values and symbols of one; None: any number.
    """

    names: tuple[str, ...]
    others: bool
    most_tokens: int | None = None


class Engine(Protocol):
    """Runs SQL that is not ours.

    Every method takes Spark SQL and raises StatementError, with the position inside the text it was given, for a query that
    cannot run (syntax, unknown table or column, unsupported function, missing file).
    """

    name: str
    statements: Statements

    @property
    def tasks(self) -> Tasks | None:
        """Where shards and workers of trainings run; None: in this process."""
        ...

    def execute(self, statement: str) -> pa.Table | None:
        """Run one statement (SELECT, CREATE, INSERT, SHOW TABLES, ...); a result table, or None where there is none."""
        ...

    def schema(self, query: str) -> pa.Schema:
        """Return the result columns of a query, in Spark's types, without running it."""
        ...

    def reader(self, query: str) -> pa.RecordBatchReader:
        """Run a query and stream its result."""
        ...

    def scan(self, query: str) -> Scan | Staged:
        """Return how to read a query's result in place, or why it has to be staged."""
        ...

    def stage(self, query: str, folder: Path) -> Scan:
        """Run a query once and write its result, in its order, as Parquet files (row groups of 122,880 rows) into `folder`."""
        ...

    def write_files(self, query: str, folder: Path, suffix: str, write: WriteFile) -> int:
        """Run a query, let `write` write its rows as one file or more into `folder`, and return how many rows there are.

        The files are `part-<number><suffix>` in the order of rows; one where there are no rows. On Spark `write` runs in tasks.
        """
        ...

    def register(self, name: str, files: Sequence[Path]) -> None:
        """Make Parquet files a temporary view of this session, replacing one of that name."""
        ...

    def register_rows(self, name: str, rows: pa.Table) -> None:
        """Make rows in memory a temporary view of this session, replacing one of that name.

        Their types become Spark's, as files' types do.
        """
        ...

    def unregister(self, name: str) -> bool:
        """Drop a temporary view of this session; return whether there was one."""
        ...

    def write_table(self, name: str, query: str, replace: bool, format: str) -> int:
        """Write the rows of a query as a table, of the warehouse or of Spark's catalog, and return how many there are.

        A table of the warehouse appears whole or not at all.

        Args:
            format: "parquet", or another one that the engine's tables can have.
        """
        ...

    def relations(self) -> list[str]:
        """Return the names of tables and views, except internal ones, for completion and error messages."""
        ...

    def sources(self, query: str) -> tuple[SourceEntry, ...]:
        """Return what a query reads: tables and files by the names that it, or a view, uses.

        Raises:
            OSError: a file is gone.
        """
        ...

    def columns(self, relation: str) -> list[str]:
        """Return a table's or view's column names, for completion."""
        ...

    def close(self) -> None:
        """Release connections and temporary files."""
        ...


def check_names_apart(schema: pa.Schema) -> None:
    """Refuse a query whose columns cannot be told apart by name.

    Raises:
        StatementError: two have one name, compared without case.
    """
    names = [name.lower() for name in schema.names]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise StatementError(f"The query has two columns named {', '.join(twice)}; give each column a name of its own with AS.")


def internal_name(what: str) -> str:
    """Return a new name for a view that a statement makes for itself."""
    return f"{INTERNAL}{what}_{token_hex(6)}"
