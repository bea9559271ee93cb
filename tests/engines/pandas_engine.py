"""A toy engine over pandas: simple SELECTs over files and tables of the warehouse, as one file that passes the suite."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import mkdtemp

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from sqlglot import exp

from xpsql.platform.engines.base import INTERNAL, Scan, Staged, Statements, WriteFile
from xpsql.platform.engines.changes import WITH_REPLACE, exists
from xpsql.platform.engines.parquet_scan import ParquetScan, staged_scan
from xpsql.platform.engines.sources import source_of, written
from xpsql.platform.engines.spark_sql.dialect import position_of
from xpsql.platform.engines.spark_sql.parsing import parse_query
from xpsql.platform.engines.spark_sql.statements import QUERY_STARTS, STATEMENTS, name_sql, read, read_name, read_query
from xpsql.platform.engines.spark_sql.tree import CreateTable, Drop, Insert, QueryText
from xpsql.platform.engines.unknown_names import absent
from xpsql.platform.errors import StatementError
from xpsql.platform.spark_types import spark_schema
from xpsql.warehouse.entries import SourceEntry
from xpsql.warehouse.names import part_name
from xpsql.warehouse.tables import Change, Tables

TYPES = {"DOUBLE": pa.float64(), "INT": pa.int32(), "BIGINT": pa.int64(), "TEXT": pa.string()}
SIGNS: dict[type[exp.Expr], Callable[[pd.Series, pd.Series], pd.Series]] = {
    exp.EQ: lambda a, b: a == b,
    exp.GT: lambda a, b: a > b,
    exp.LT: lambda a, b: a < b,
}


class PandasEngine:
    """Runs SELECT items FROM relation [WHERE comparison] [GROUP BY columns] [ORDER BY column], CREATE TABLE, INSERT, DROP."""

    name = "pandas"
    statements = Statements((*QUERY_STARTS, *STATEMENTS), others=False)
    tasks = None

    def __init__(self, warehouse: Path) -> None:
        self._tables = Tables(warehouse)
        self._views: dict[str, list[str]] = {}
        self._folder = Path(mkdtemp())

    def execute(self, statement: str) -> pa.Table | None:
        match read(statement):
            case QueryText(text):
                return self._run(text)
            case CreateTable(name, replace, _, query, _) if query is not None:
                self._put(name.name, self._run(query.text), "replace" if replace else "new", statement)
            case Insert(name, _, _, _, query):
                self._put(name.name, self._run(query.text), "append", statement)
            case Drop(name, kind, if_exists):
                if kind == "TABLE" and self._tables.exists(name.name):
                    self._tables.drop(name.name)
                elif self._views.pop(name.name, None) is None and not if_exists:
                    raise absent(kind.lower(), name.name, self.relations(), name.position)
            case other:
                raise StatementError(f"The toy does not run {type(other).__name__}.")
        return None

    def schema(self, query: str) -> pa.Schema:
        return self._run(read_query(query).text).schema

    def reader(self, query: str) -> pa.RecordBatchReader:
        return self._run(read_query(query).text).to_reader()

    def scan(self, query: str) -> Scan | Staged:
        tree = parse_query(read_query(query).text)
        schema = self.schema(query)
        items = [item.unalias() for item in tree.expressions]
        clauses = {key for key, value in tree.args.items() if value}
        if clauses > {"expressions", "from_"} or not all(isinstance(item, exp.Column) for item in items):
            return Staged(schema, "it is more than columns of files")
        columns = {name: item.name for name, item in zip(schema.names, items, strict=True)}
        return ParquetScan(tuple(self._files(tree)), columns, None, tuple(dict.fromkeys(columns.values())), schema)

    def stage(self, query: str, folder: Path) -> Scan:
        folder.mkdir(parents=True, exist_ok=True)
        path, table = folder.absolute() / part_name(0), self._run(read_query(query).text)
        pq.write_table(table, path, row_group_size=122_880)
        return staged_scan((str(path),), table.schema)

    def write_files(self, query: str, folder: Path, suffix: str, write: WriteFile) -> int:
        return write(folder / part_name(0, suffix), self.reader(query))

    def register(self, name: str, files: Sequence[Path]) -> None:
        self._views[name.lower()] = [str(file.absolute()) for file in files]

    def register_rows(self, name: str, rows: pa.Table) -> None:
        path = self._folder / f"{name.lower()}.parquet"
        pq.write_table(rows.cast(spark_schema(rows.schema)), path)
        self.register(name, [path])

    def unregister(self, name: str) -> bool:
        return self._views.pop(name.lower(), None) is not None

    def write_table(self, name: str, query: str, replace: bool, format: str) -> int:
        table = self._run(read_query(query).text)
        self._put(read_name(name).name, table, "replace" if replace else "new", name)
        return int(table.num_rows)

    def relations(self) -> list[str]:
        return sorted(name for name in {*self._views, *self._tables.names()} if not name.startswith(INTERNAL))

    def sources(self, query: str) -> tuple[SourceEntry, ...]:
        tree = parse_query(read_query(query).text)
        return (source_of("table", written(tree.args["from_"].this), self._files(tree)),)

    def columns(self, relation: str) -> list[str]:
        return list(self.schema(f"SELECT * FROM {name_sql(read_name(relation))}").names)

    def close(self) -> None:
        self._views.clear()
        shutil.rmtree(self._folder)

    def _put(self, name: str, table: pa.Table, change: Change, statement: str) -> None:
        with self._tables.draft() as draft:
            pq.write_table(table, draft / "part.parquet")
            if not self._tables.put(name, draft, change):
                raise exists("table", read_name(name), WITH_REPLACE) if change == "new" else StatementError(f"No {name}.")

    def _files(self, tree: exp.Expr) -> list[str]:
        table = tree.args["from_"].this if tree.args.get("from_") else None
        if not isinstance(table, exp.Table):
            raise StatementError("The toy reads one table or view.")
        files = self._views.get(table.name.lower()) or self._tables.files(table.name.lower())
        if files is None:
            raise absent("table or view", table.name, self.relations(), position_of(table.this))
        return list(files)

    def _run(self, text: str) -> pa.Table:
        tree = parse_query(text)
        stored = pa.concat_tables([pq.read_table(file, partitioning=None) for file in self._files(tree)])
        frame = stored.to_pandas(types_mapper=pd.ArrowDtype)
        if (where := tree.args.get("where")) is not None:
            frame = frame[value(where.this, frame).fillna(False)]
        if (order := tree.args.get("order")) is not None:
            (by,) = order.expressions
            frame = frame.loc[value(by.this, frame).sort_values(ascending=not by.args.get("desc"), kind="stable").index]
        if any(isinstance(item, exp.Star) for item in tree.expressions):
            return pa.Table.from_pandas(frame, spark_schema(stored.schema), preserve_index=False)
        groups = [group.name for group in tree.args["group"].expressions] if tree.args.get("group") else []
        parts = [part for _, part in frame.groupby(groups, dropna=False)] if groups else [frame]
        made = [{item.alias_or_name: value(item.unalias(), part) for item in tree.expressions} for part in parts]
        whole = any(item.find(exp.AggFunc) or is_count(item.unalias()) for item in tree.expressions)
        pieces = [pd.DataFrame(row).iloc[:1] if whole else pd.DataFrame(row) for row in made]
        return pa.Table.from_pandas(pd.concat(pieces), preserve_index=False).replace_schema_metadata(None)


def is_count(node: exp.Expr) -> bool:
    return isinstance(node, exp.Anonymous) and node.name.lower() in ("count", "sum")


def value(node: exp.Expr, frame: pd.DataFrame) -> pd.Series:
    """Return the values of an expression for the rows of a frame; an aggregate's is the same in all, of one row at least."""
    index = frame.index if len(frame) else pd.RangeIndex(1)
    if isinstance(node, exp.Column):
        if node.name not in frame.columns:
            raise absent("column", node.name, frame.columns, position_of(node.this))
        return frame[node.name]
    if isinstance(node, exp.Literal):
        kind = pa.string() if node.is_string else pa.int32()
        return pd.Series(node.this if node.is_string else int(node.this), index, pd.ArrowDtype(kind))
    if isinstance(node, exp.Cast):
        return value(node.this, frame).astype(pd.ArrowDtype(TYPES[node.to.sql().upper()]))
    if is_count(node):
        (of,) = node.expressions
        found = len(frame) if isinstance(of, exp.Star) else int(value(of, frame).sum())
        return pd.Series(found, index, pd.ArrowDtype(pa.int64()))
    if type(node) in SIGNS:
        return SIGNS[type(node)](value(node.this, frame), value(node.expression, frame))
    raise StatementError(f"The toy does not know {node.sql()}.", position_of(node))
