"""What a statement gives: rows, or nothing for a statement that only acts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from .errors import StatementError

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]
    import polars as pl
    import pyarrow as pa

SHOWN_ROWS = 20
LISTING = re.compile(r"\s*(?:EXPLAIN|DESCRIBE|DESC|SHOW\s+(?:ALGORITHMS|OPERATORS|PROVENANCE))\b", re.IGNORECASE)
"""Statements whose answers people read to the last row."""

Row = tuple[Any, ...]


class Result:
    """The rows of a statement, all in memory.

    It has a length, gives its rows as tuples when iterated over, and is an Arrow stream to any library that takes one
    (`polars.DataFrame(result)`, `pyarrow.table(result)`).

    Attributes:
        table: the rows, or None for a statement that has no result.
    """

    def __init__(self, table: pa.Table | None) -> None:
        self.table = table
        self._fetched = 0

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return list(self.arrow().column_names)

    def arrow(self) -> pa.Table:
        """Return the rows as an Arrow table, one without columns if there is no result."""
        import pyarrow as pa

        return pa.table({}) if self.table is None else self.table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Give the rows by Arrow's C stream interface; see the Arrow PyCapsule interface."""
        return self.arrow().__arrow_c_stream__(requested_schema)

    def to_pandas(self) -> pd.DataFrame:
        """Return the rows as a pandas frame; pandas must be installed.

        Raises:
            StatementError: it is not installed.
        """
        try:
            import pandas  # noqa: F401
        except ModuleNotFoundError as error:
            raise StatementError("A pandas frame needs the package pandas: pip install pandas.") from error
        return self.arrow().to_pandas()

    df = to_pandas

    def pl(self) -> pl.DataFrame:
        """Return the rows as a Polars frame; Polars must be installed.

        Raises:
            StatementError: it is not installed.
        """
        try:
            import polars as pl
        except ModuleNotFoundError as error:
            raise StatementError("A Polars frame needs the package polars: pip install polars.") from error
        return pl.DataFrame(self.arrow())

    def __len__(self) -> int:
        return int(self.arrow().num_rows)

    def __bool__(self) -> bool:
        """Always true; `len` counts the rows."""
        return True

    def __iter__(self) -> Iterator[Row]:
        return rows_of(self.arrow())

    def fetchone(self) -> Row | None:
        """Return the next row, or None after the last one."""
        found = self.fetchmany(1)
        return found[0] if found else None

    def fetchmany(self, size: int = 1) -> list[Row]:
        """Return the next rows, `size` at most."""
        found = list(rows_of(self.arrow().slice(self._fetched, size)))
        self._fetched += len(found)
        return found

    def fetchall(self) -> list[Row]:
        """Return the rows that have not been fetched."""
        return self.fetchmany(len(self) - self._fetched)

    def show(self, rows: int | None = None) -> None:
        """Print the first rows; all of what EXPLAIN, DESCRIBE and the like answered, unless `rows` says how many."""
        print(self.text(self._shown() if rows is None else rows))

    def text(self, rows: int) -> str:
        """Return the first rows as aligned text.

        Raises:
            StatementError: `rows` is not a number of 0 or more.
        """
        from .display import text_table

        if not isinstance(rows, int) or rows < 0:
            raise StatementError(f"Expected a number of rows to show, 0 or more, got {rows!r}.")
        return "OK" if self.table is None else text_table(self.table, rows)

    def __repr__(self) -> str:
        return self.text(self._shown())

    def _shown(self) -> int:
        """Return how many rows are shown: all of a statement of LISTING."""
        from .display import is_listed

        return len(self) if self.table is not None and is_listed(self.table) else SHOWN_ROWS

    def _repr_html_(self) -> str:
        from .display import html_table

        return "OK" if self.table is None else html_table(self.table, self._shown())


def result_of(table: pa.Table | None, statement: str) -> Result:
    """Return what a statement answered; the answer to one of LISTING is shown whole."""
    if table is None or LISTING.match(statement) is None:
        return Result(table)
    from .display import is_listed, listed

    return Result(table if is_listed(table) else listed(table, 0))


def rows_of(table: pa.Table) -> Iterator[Row]:
    """Yield the rows of a table as tuples of Python's values; a map is a dict."""
    from .display import values

    for batch in table.to_batches():
        columns = [values(column) for column in batch.columns]
        yield from zip(*columns, strict=True)
