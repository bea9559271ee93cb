"""An engine for tests of what is above engines: DuckDB as it is, without Spark's dialect or a warehouse."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import duckdb
import pyarrow as pa

from xpsql.platform.engines.duckdb.engine import DuckDBEngine
from xpsql.platform.errors import Position, StatementError
from xpsql.platform.progress import SilentReporter
from xpsql.platform.session import Session
from xpsql.warehouse.models import Models


class PlainEngine:
    """Runs DuckDB's SQL; an unknown name `nowhere` is an error at its own place."""

    name = "plain"
    statements = DuckDBEngine.statements._replace(others=True)
    tasks = None

    def __init__(self) -> None:
        self.connection = duckdb.connect()
        self.executed: list[str] = []

    def execute(self, statement: str) -> pa.Table | None:
        self.executed.append(statement)
        lines = statement.split("\n")
        for line, text in enumerate(lines, 1):
            if "nowhere" in text:
                raise StatementError("There is no table nowhere.", Position(line, text.index("nowhere") + 1, "nowhere"))
        relation = self.connection.sql(statement)
        acted = relation is None or statement.lstrip()[:6].upper() in ("CREATE", "INSERT")
        return None if acted else relation.to_arrow_table()

    def schema(self, query: str) -> pa.Schema:
        rows = self.execute(query)
        assert rows is not None
        return rows.schema

    def register(self, name: str, files: Sequence[Path]) -> None:
        paths = [str(file) for file in files]
        self.connection.sql(f"CREATE OR REPLACE TEMP VIEW {name} AS SELECT * FROM read_parquet({paths})")

    def register_rows(self, name: str, rows: pa.Table) -> None:
        self.connection.register(name, rows)

    def relations(self) -> list[str]:
        return [row[0] for row in self.connection.sql("SHOW TABLES").fetchall()]

    def columns(self, relation: str) -> list[str]:
        if relation not in self.relations():
            raise StatementError(f"There is no table {relation}.")
        return [row[0] for row in self.connection.sql(f"DESCRIBE {relation}").fetchall()]

    def close(self) -> None:
        self.connection.close()


def plain_session(root: Path) -> Session:
    return Session(PlainEngine(), Models(root), SilentReporter())  # type: ignore[arg-type]  # only what these tests need
