"""What a statement gives: rows, or nothing for a statement that only acts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .errors import StatementError

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]
    import pyarrow as pa

SHOWN_ROWS = 20


class Result:
    """The rows of a statement.

    Attributes:
        table: the rows, or None for a statement that has no result.
    """

    def __init__(self, table: pa.Table | None) -> None:
        self.table = table

    def arrow(self) -> pa.Table:
        """Return the rows as an Arrow table; one without columns where there is no result."""
        import pyarrow as pa

        return pa.table({}) if self.table is None else self.table

    def to_pandas(self) -> pd.DataFrame:
        """Return the rows as a pandas frame; pandas must be installed."""
        return self.arrow().to_pandas()

    def show(self, rows: int = SHOWN_ROWS) -> None:
        """Print the first rows."""
        print(self.text(rows))

    def text(self, rows: int) -> str:
        """Return the first rows as aligned text.

        Raises:
            StatementError: `rows` is no number from 0 on.
        """
        from .display import text_table

        if not isinstance(rows, int) or rows < 0:
            raise StatementError(f"Expected a number of rows to show, 0 or more, got {rows!r}.")
        return "OK" if self.table is None else text_table(self.table, rows)

    def __repr__(self) -> str:
        return self.text(SHOWN_ROWS)

    def _repr_html_(self) -> str:
        from .display import html_table

        return "OK" if self.table is None else html_table(self.table, SHOWN_ROWS)
