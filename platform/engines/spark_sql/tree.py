"""Statements on tables and views as data."""

from __future__ import annotations

from dataclasses import dataclass

from ...errors import Position


@dataclass(frozen=True)
class Name:
    """A table or view, in lower case, where it was written, and whether with its database.

    Of tables of other programs, `within` is the catalog and the namespace, `("lake", "sales")`, or `("delta",)`; their names
    are as written.
    """

    name: str
    position: Position | None = None
    qualified: bool = False
    within: tuple[str, ...] = ()


@dataclass(frozen=True)
class QueryText:
    """A query: the statement's text with all that stands before it blanked, so that positions stay true."""

    text: str


@dataclass(frozen=True)
class FileView:
    """CREATE TEMPORARY VIEW name [(columns)] USING format OPTIONS (...).

    `columns` is the text of the list, or None; `places` tells where each option stands.
    """

    name: Name
    replace: bool
    format: str
    options: dict[str, str]
    places: dict[str, Position]
    columns: str | None


@dataclass(frozen=True)
class CreateView:
    """CREATE [OR REPLACE] [TEMPORARY] VIEW [IF NOT EXISTS] name [(column, ...)] AS query."""

    name: Name
    replace: bool
    temporary: bool
    if_absent: bool
    columns: tuple[str, ...]
    query: QueryText


@dataclass(frozen=True)
class CreateTable:
    """CREATE [OR REPLACE] TABLE [IF NOT EXISTS] name [PARTITIONED BY (column, ...)], of a query or of a list of columns."""

    name: Name
    replace: bool
    if_absent: bool
    query: QueryText | None
    columns: str | None
    partitioned_by: tuple[str, ...] = ()


@dataclass(frozen=True)
class Insert:
    """INSERT INTO | OVERWRITE [TABLE] name [PARTITION (column [= value], ...)] [BY NAME | (column, ...)] query.

    WITH and FROM of the query may stand before it. `partition` has the columns that it names, with the text of their value.
    """

    name: Name
    overwrite: bool
    by_name: bool
    columns: tuple[str, ...]
    query: QueryText
    partition: tuple[tuple[str, str | None], ...] = ()

    @property
    def fixed(self) -> dict[str, str]:
        """The columns whose value the statement gives, in lower case, and the text of that value."""
        return given(self.partition)


@dataclass(frozen=True)
class InsertDirectory:
    """INSERT OVERWRITE [LOCAL] DIRECTORY 'path' [USING format [OPTIONS (...)]] query."""

    path: str
    position: Position | None
    format: str
    options: dict[str, str]
    places: dict[str, Position]
    query: QueryText


@dataclass(frozen=True)
class Delete:
    """DELETE FROM name [[AS] alias] [WHERE condition].

    `query` is of the rows that go; `condition` is a text, None: all go.
    """

    name: Name
    alias: str
    condition: str | None
    query: QueryText


@dataclass(frozen=True)
class DropPartition:
    """ALTER TABLE name DROP [IF EXISTS] PARTITION (column = value, ...) [, PARTITION (...)] [PURGE].

    `partitions` has the columns of each, with the text of their value.
    """

    name: Name
    if_exists: bool
    partitions: tuple[tuple[tuple[str, str | None], ...], ...]


@dataclass(frozen=True)
class Drop:
    """DROP TABLE | VIEW [IF EXISTS] name."""

    name: Name
    kind: str
    if_exists: bool


@dataclass(frozen=True)
class ShowTables:
    """SHOW TABLES | VIEWS [LIKE 'pattern']."""

    kind: str
    pattern: str


@dataclass(frozen=True)
class ShowPartitions:
    """SHOW PARTITIONS name."""

    name: Name


@dataclass(frozen=True)
class Describe:
    """DESCRIBE [TABLE] name, or DESCRIBE [QUERY] query."""

    name: Name | None
    query: QueryText | None


def given(partition: tuple[tuple[str, str | None], ...]) -> dict[str, str]:
    """Return the columns of PARTITION that have a value, in lower case, and the text of that value."""
    return {name.lower(): value for name, value in partition if value is not None}


Change = CreateView | CreateTable | Insert | InsertDirectory | Delete | DropPartition | Drop
Definition = FileView | Change | ShowTables | ShowPartitions | Describe
Statement = QueryText | Definition
