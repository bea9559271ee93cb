"""Queries on Spark that are read in place: those that Spark's own optimizer reduces to columns of Parquet files.

Views, subqueries and WITH are gone from the optimized plan, so there are two plans by which a query can be read in place:

    Relation [day#1,user#2L] parquet

    Project [user#2L AS who#7L, day#1]
    +- Relation [day#1,user#2L] parquet

The names that may stand there are known, from the files and from the query's columns, and the plan must be exactly what they
give; whatever differs is staged. The WHERE of the query itself is taken off before and, where it is simple, done by the reader.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote, urlsplit

import pyarrow as pa
from sqlglot import exp

from ...errors import StatementError
from ..base import Scan, Staged
from ..conditions import NotSimple, Origin, all_of, instants_in
from ..in_place import CLAUSES, as_stored, bare, stored_schema
from ..parquet_scan import ParquetScan
from ..spark_sql.lexer import level, tokens_of
from ..spark_sql.parsing import parse_query
from .application import Application
from .filters import Kept
from .frames import configured, schema_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PARTS = ("SELECT", "FROM", "WHERE")
ID = r"#(\d+)L?"


class Unfit(NamedTuple):
    """The reason why a query cannot be read in place."""

    reason: str


MORE = Unfit("it is more than columns of Parquet files and a simple WHERE")
PARTITIONED = Unfit("columns of its partitions are in the names of folders, not in the files")
OTHER_TYPES = Unfit("the files have its columns in other types")


class Reference(NamedTuple):
    """A query that returns the rows of Parquet files unchanged.

    Attributes:
        files: in the order of reading.
        stored: the files' columns.
        columns: result column -> stored column.
    """

    files: tuple[str, ...]
    stored: pa.Schema
    columns: dict[str, str]


class CutQuery(NamedTuple):
    """A query cut at its WHERE: without it, what it reads as a whole, the name of that, and the condition."""

    unfiltered: str
    origin: str
    name: str
    condition: exp.Expr


def reading_of(application: Application, query: str) -> Scan | Staged:
    """Return how to read a query's result in place, or why it has to be staged.

    Raises:
        StatementError: the query cannot run.
    """
    spark = application.spark
    frame = spark.sql(query)
    schema = schema_of(frame)
    if len({name.lower() for name in schema.names}) < len(schema):
        return Staged(schema, "two of its columns have one name")
    split = split_where(query)
    found = reference_of(application, frame if split is None else spark.sql(split.unfiltered))
    if isinstance(found, Unfit):
        return Staged(schema, found.reason)
    scan = scan_of(found, schema) if split is None else filtered(application, split, found, schema)
    return Staged(schema, scan.reason) if isinstance(scan, Unfit) else scan


def scan_of(found: Reference, schema: pa.Schema) -> Scan | Unfit:
    """Return how to read the rows of a reference."""
    if not as_stored(found.columns, schema, found.stored):
        return OTHER_TYPES
    return ParquetScan(found.files, found.columns, None, tuple(dict.fromkeys(found.columns.values())), schema)


def filtered(application: Application, split: CutQuery, found: Reference, schema: pa.Schema) -> Scan | Unfit:
    """Return how to read the rows of a reference that pass a condition."""
    if not as_stored(found.columns, schema, found.stored):
        return OTHER_TYPES
    spark = application.spark
    whole = spark.sql(split.origin)
    under = reference_of(application, whole)
    if isinstance(under, Unfit):
        return under
    columns = {name.lower(): own for name, own in under.columns.items()}
    types = {field.name.lower(): field.dataType.simpleString() for field in whole.schema.fields}
    times, zone = instants_in(under.stored), str(spark.conf.get("spark.sql.session.timeZone"))
    instants = {name: times[own] for name, own in columns.items() if own in times and types[name] == "timestamp"}
    relation = Origin(split.name, columns, types, instants, zone)
    try:
        condition = relation.condition(split.condition)
    except NotSimple:
        return Unfit("its WHERE is more than comparisons of columns with literals")
    named = {column.name.lower() for column in split.condition.find_all(exp.Column)}
    kept = Kept(condition, frozenset(own for name, own in columns.items() if name in named), found.columns, schema)
    own, necessary = {name: name for name in schema.names}, relation.necessary(split.condition)
    return ParquetScan(found.files, own, kept, kept.needed, schema, condition=all_of(necessary))


def reference_of(application: Application, frame: DataFrame) -> Reference | Unfit:
    """Return the files and columns that a query without WHERE names, if it does nothing else."""
    plan = plan_of(application, frame)
    if len(plan) > 2 or not plan[-1].endswith(" parquet"):
        return MORE
    files = local_files(frame.inputFiles())
    if isinstance(files, Unfit):
        return files
    try:
        stored = stored_schema(files)
    except (OSError, pa.ArrowException) as error:
        return Unfit(f"a file cannot be read: {error}")
    if stored is None:
        return Unfit("its files differ in their columns, or have types that Spark does not")
    if any(names_partition(folder.name, stored.names) for file in files for folder in Path(file).parents):
        return PARTITIONED
    columns = columns_in(plan, stored.names, frame.columns)
    if columns is None:
        return PARTITIONED if any("=" in Path(file).parent.name for file in files) else MORE
    return Reference(files, stored, columns)


def names_partition(folder: str, stored: Collection[str]) -> bool:
    """Return whether a folder gives a column of the files its value, as `day=1` does: Spark reads that, not the file's."""
    column, equals, _ = folder.partition("=")
    return bool(equals) and unquote(column).lower() in {name.lower() for name in stored}


def local_files(found: Iterable[str]) -> tuple[str, ...] | Unfit:
    """Return the paths of files, sorted; Spark itself reads them in no order.

    Links are resolved: the link to a table's file may disappear while the file is being read.
    """
    urls = [urlsplit(uri) for uri in found]
    if not urls:
        return Unfit("it does not read files")
    if remote := next((url.scheme for url in urls if url.scheme not in ("", "file")), None):
        return Unfit(f"files of {remote}:// are not mounted as a folder")
    paths = sorted(Path(unquote(url.path)) for url in urls)
    return tuple(str(path.parent / path.readlink() if path.is_symlink() else path) for path in paths)


def plan_of(application: Application, frame: DataFrame) -> list[str]:
    """Return the lines of Spark's optimized plan of a query."""
    with configured(application.spark, {"spark.sql.debug.maxToStringFields": str(2**31 - 1)}):
        return application.plan(frame).rstrip("\n").split("\n")


def columns_in(plan: list[str], stored: Iterable[str], names: Iterable[str]) -> dict[str, str] | None:
    """Return result column -> stored column of a plan; None unless it only names and renames columns of Parquet files."""
    own = list(stored)
    listed = ",".join(re.escape(name) + ID for name in own)
    relation = re.fullmatch(rf"(?:\+- )?Relation [^\[]*\[{listed}\] parquet", plan[-1])
    if relation is None:
        return None
    if len(plan) == 1:
        return dict(zip(own, own, strict=True)) if own == list(names) else None
    by_id = dict(zip(relation.groups(), own, strict=True))
    sources = "|".join(map(re.escape, sorted(own, key=len, reverse=True)))
    items = ", ".join(f"(?:{re.escape(name)}{ID}|(?:{sources}){ID} AS {re.escape(name)}#\\d+L?)" for name in names)
    project = re.fullmatch(rf"Project \[{items}\]", plan[0]) if len(plan) == 2 else None
    if project is None:
        return None
    ids = [plain or renamed for plain, renamed in zip(project.groups()[::2], project.groups()[1::2], strict=True)]
    return {name: by_id[i] for name, i in zip(names, ids, strict=True)} if all(i in by_id for i in ids) else None


def split_where(query: str) -> CutQuery | None:
    """Cut a simple SELECT FROM one relation at its WHERE; None for other queries, and for those that have none."""
    try:
        tree = parse_query(query)
    except StatementError:
        return None  # Spark reads it, though the embedded engine's parser does not
    if not isinstance(tree, exp.Select) or not tree.args.get("where") or not bare(tree, CLAUSES):
        return None
    depth = 0
    places: dict[str, int] = {}
    for token in tokens_of(query):
        depth += level(token)
        if depth == 0 and (word := token.text.upper()) in PARTS:
            places.setdefault(word, token.start)
    if tuple(places) != PARTS:
        return None
    source = query[places["FROM"] : places["WHERE"]]
    unfiltered = query[: places["WHERE"]]
    return CutQuery(unfiltered, f"SELECT * {source}", tree.args["from_"].this.alias_or_name, tree.args["where"].this)
