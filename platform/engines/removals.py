"""DELETE and ALTER TABLE ... DROP PARTITION on tables of the warehouse, the same on every engine: files that lose rows are
written again without them, in their places, and files of which nothing is left go."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

import pyarrow as pa
from sqlglot import exp

from ...warehouse.tables import Tables, text_of
from ..errors import StatementError
from ..quoting import quoted
from ..spark_types import type_words
from .changes import fixed_values
from .in_place import bare
from .parquet_files import schema_of
from .spark_sql.dialect import position_of
from .spark_sql.parsing import parse_query
from .spark_sql.tree import Delete, DropPartition, Name, QueryText, given
from .spark_sql.words import VARYING

FILE, ROW = "xpsql_file", "xpsql_row"
"""Columns that pieces have besides those of the table: the file, whose name ends its path, and the number of the row in it."""
Over = Callable[[str], str]
"""Makes a query in Spark SQL over the relation of a name."""


class Pieces(Protocol):
    """Files of a table on an engine."""

    def schema(self, query: QueryText) -> pa.Schema:
        """Return the columns of a query.

        Raises:
            StatementError: it cannot run.
        """
        ...

    def values(self, files: Sequence[str], query: Over) -> list[str]:
        """Run a query of one column over files, and return its values."""
        ...

    def write(self, file: str, query: Over, folder: Path) -> Path:
        """Write the rows of a query over a file as one Parquet file in a folder, ordered by ROW, and return its path."""
        ...


def delete(statement: Delete, tables: Tables, pieces: Pieces) -> pa.Table:
    """Remove rows of a table in one step; rows whose condition is NULL stay.

    Returns:
        How many rows are gone.

    Raises:
        StatementError: the condition cannot be evaluated, or another statement changed what this one reads.
        ModelError: the warehouse is not writable; the table stays as it was.
    """
    import pyarrow.parquet as pq

    name, alias, condition = statement.name.name, quoted(statement.alias), statement.condition
    check_condition(statement)
    pieces.schema(statement.query)
    if condition is not None:
        kind = pieces.schema(QueryText(f"SELECT ({condition}) AS met FROM {quoted(name)} AS {alias}")).types[0]
        if not pa.types.is_boolean(kind):
            words = f"Expected a condition, {condition} is {type_words(kind).upper()}."
            raise StatementError(words, statement.name.position)
    files = {Path(file).name: file for file in tables.files(name) or ()}
    with tables.draft() as draft:
        if condition is None:
            return removed(tables, name, draft, dict.fromkeys(files))
        smaller: dict[str, Path | None] = {}
        found = pieces.values(
            list(files.values()), lambda piece: f"SELECT DISTINCT {FILE} FROM {piece} AS {alias} WHERE ({condition})"
        )
        columns = ", ".join(map(quoted, schema_of(next(iter(files.values()))).names))
        for file in sorted(path.rpartition("/")[2] for path in found):
            rest = pieces.write(
                files[file],
                lambda piece: f"SELECT {columns}, {ROW} FROM {piece} AS {alias} WHERE NOT (({condition}) <=> TRUE)",
                draft,
            )
            smaller[file] = rest if pq.read_metadata(rest).num_rows else None
        return removed(tables, name, draft, smaller)


def check_condition(statement: Delete) -> None:
    """Require that what follows WHERE is a condition, and always the same one.

    Raises:
        StatementError: says what it has besides.
    """
    tree = parse_query(statement.query.text)
    if not isinstance(tree, exp.Select) or not bare(tree, ("expressions", "from_", "where")):
        raise StatementError("DELETE takes a condition, and nothing after it.", statement.name.position)
    for node in tree.find_all(exp.Func):
        name = node.name if isinstance(node, exp.Anonymous) else node.sql_name()
        if name.lower() in VARYING:
            raise StatementError(f"{name} gives another value each time; a condition of DELETE cannot.", position_of(node))


def drop_partitions(statement: DropPartition, schema: pa.Schema, tables: Tables, run: Callable[[str], pa.Table]) -> pa.Table:
    """Remove partitions of a table in one step.

    Args:
        schema: of the table.
        run: runs a query in Spark SQL.

    Returns:
        How many rows are gone.

    Raises:
        StatementError: there is no such partition.
        ModelError: the warehouse is not writable; the table stays as it was.
    """
    name, contents = statement.name, tables.contents(statement.name.name)
    gone: dict[str, Path | None] = {}
    for partition in statement.partitions:
        check_given(name, partition, () if contents is None else contents.partitioned_by)
        values = {column: text_of(value) for column, value in fixed_values(name, given(partition), schema, run).items()}
        files = [file for file in contents.files if contents.within(file, values)] if contents is not None else []
        if not files and not statement.if_exists:
            words = ", ".join(f"{column} = {value}" for column, value in values.items())
            raise StatementError(
                f"{name.name} has no partition ({words}). SHOW PARTITIONS {name.name} lists them; DROP IF EXISTS takes that.",
                name.position,
            )
        gone |= dict.fromkeys(files)
    with tables.draft() as draft:
        return removed(tables, name.name, draft, gone)


def check_given(name: Name, partition: Sequence[tuple[str, str | None]], by: Sequence[str]) -> None:
    """Require that PARTITION gives values to columns that a table is partitioned by.

    Raises:
        StatementError: it does not.
    """
    if not by:
        raise StatementError(f"{name.name} has no partitions. Use DELETE FROM {name.name} WHERE ....", name.position)
    columns = [column.lower() for column, _ in partition]
    if not {*columns} <= {column.lower() for column in by} or len({*columns}) < len(columns):
        came = ", ".join(column for column, _ in partition)
        raise StatementError(f"{name.name} is partitioned by {', '.join(by)}; PARTITION has {came}.", name.position)
    if any(value is None for _, value in partition):
        raise StatementError("Expected a value for each column: PARTITION (day = '2026-11-10').", name.position)


def removed(tables: Tables, name: str, draft: Path, smaller: dict[str, Path | None]) -> pa.Table:
    """Let a table have its files without the rows that go, and return the row that tells how many these were."""
    rows = tables.shrink(name, draft, smaller) if smaller else 0
    return pa.table({"num_affected_rows": pa.array([rows], pa.int64())})
