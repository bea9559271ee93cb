"""Files of a table, queried one by one or together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from .. import parquet
from ..base import internal_name
from ..removals import FILE, ROW, Over
from ..spark_sql.tree import QueryText
from .files.paths import Listing
from .files.source import FileSource
from .queries import Queries
from .relations import Relations


class DuckDBPieces:
    """Files on DuckDB; see Pieces."""

    def __init__(self, queries: Queries, relations: Relations) -> None:
        self._queries = queries
        self._relations = relations

    def schema(self, query: QueryText) -> pa.Schema:
        """Return the columns of a query."""
        return self._queries.schema(query)

    def values(self, files: Sequence[str], query: Over) -> list[str]:
        """Run a query of one column over files."""
        with self._made(files) as name:
            values: list[str] = self._queries.stream(QueryText(query(name))).read_all().column(0).to_pylist()
        return values

    def write(self, file: str, query: Over, folder: Path) -> Path:
        """Write the rows of a query over a file."""
        path = folder / Path(file).name
        with self._made([file]) as name:
            ordered = f"SELECT * EXCEPT ({ROW}) FROM ({query(name)}) ORDER BY {ROW}"
            parquet.write(path, self._queries.stream(QueryText(ordered)))
        return path

    @contextmanager
    def _made(self, files: Sequence[str]) -> Iterator[str]:
        """Yield the name of a view of files, which lasts as long as the block."""
        name, found = internal_name("piece"), Listing(tuple(files), {})
        sql = f"SELECT *, file_row_number AS {ROW} FROM read_parquet({found.array}, filename = '{FILE}', {found.arguments})"
        self._relations.temporary[name] = FileSource(sql, None, found.files)
        try:
            yield name
        finally:
            del self._relations.temporary[name]
