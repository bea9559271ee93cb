"""Exports of a version's weights: as a warehouse table, or as files that other programs read."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from ...warehouse.dense import copy_dense
from ...warehouse.durable import storing
from ...warehouse.manifest import FILE, read_json
from ...warehouse.version import Version
from ..engines.base import WriteFile
from ..engines.parquet import row_groups
from ..engines.targets import Target
from ..errors import ModelError
from .weights import weights

if TYPE_CHECKING:
    from ..engines.base import Engine

MANIFEST = "_manifest.json"
DENSE = "_dense"
PACKAGE = "_package"
TREE = "_tree"
EXPORTS, ROWS, VECTORS = "exports", "rows", "vectors"
"""A field of the manifest beside an export, what the export is of; ROWS where it has none."""


def export_table(version: Version, engine: Engine, table: str, replace: bool, format: str) -> int:
    """Write the columns of ML.WEIGHTS to a warehouse table, and return how many rows it has.

    Raises:
        StatementError: the table exists and is not to be replaced.
    """
    with weights(version, engine) as relation:
        return engine.write_table(table, relation.select(), replace, format)


def export_files(version: Version, engine: Engine, target: Target, format: str, replace: bool) -> int:
    """Write the columns of ML.WEIGHTS to a folder, as Target does, and return how many rows it has.

    The rows are one file, on Spark one for each partition that has any, which executors write into the warehouse first.
    Beside the rows stand `_manifest.json`, with what is needed to score elsewhere (scales of continuous slots), `_dense` where
    predictions need dense parameters, `_package` where another package learned it, and `_tree` of a model that has one;
    readers of folders of files skip names that begin with `_`.

    Raises:
        ModelError: the folder holds something else than an export, or one of another model or format that is not to be
            replaced, or cannot be written.
    """
    with writing(version, target, ROWS, format, replace) as (draft, write):
        with target.storing(draft):
            copy_dense(version.stored("dense"), draft / DENSE, version.manifest.train_only)
        version.copy("package", draft / PACKAGE)
        version.copy("tree", draft / TREE)
        with weights(version, engine) as relation:
            return engine.write_files(relation.select(), draft, f".{format}", write)


@contextmanager
def writing(version: Version, target: Target, of: str, format: str, replace: bool) -> Iterator[tuple[Path, WriteFile]]:
    """Give an empty folder with the version's manifest, and what writes a file of a format; at the end it is the target.

    Args:
        of: ROWS or VECTORS.

    Raises:
        ModelError: see export_files.
    """
    chosen = next(f for f in FORMATS if f.name == format)
    _check_free(target, Exported(version.manifest.model, of, format), replace)
    with target.replacing(last=MANIFEST) as draft:
        named = {"model": version.manifest.model, "version": version.number, EXPORTS: of}
        text = json.dumps(read_json(version.folder / FILE) | named, indent=1) + "\n"
        with target.storing(draft):
            (draft / MANIFEST).write_text(text, encoding="utf-8")
        yield draft, chosen.write


def _check_free(target: Target, new: Exported, replace: bool) -> None:
    """Require that nothing is lost when a folder is replaced, and that readers of what was there still find it."""
    if not (names := target.names()):
        return
    parts = {f.name: {name for name in names if fnmatchcase(name, f"part-*.{f.name}")} for f in FORMATS}
    found = exported(target, MARKER)
    check_no_more(target, names - {MANIFEST, DENSE, PACKAGE, TREE}.union(*parts.values()))
    others = [name for name, own in parts.items() if own and name != new.format]
    had = Exported(found["model"], found.get(EXPORTS, ROWS), next(iter(others), new.format))
    check_replaced(target, had, new, replace)


class Marker(NamedTuple):
    """A file, a JSON object, that every export of a kind has: a field of it that others of its name lack, and the kind."""

    file: str
    field: str
    kind: str


MARKER = Marker(MANIFEST, "algorithm", "export of a model as parquet, csv or json")


def exported(target: Target, marker: Marker) -> dict[str, Any]:
    """Return what the marker of an export says, in a folder that is to be replaced.

    Raises:
        ModelError: it is no export of that kind.
    """
    try:
        values = dict(json.loads(target.read(marker.file)))
        found = isinstance(values["model"], str) and marker.field in values
        problem: Exception | None = None
    except (OSError, ValueError, KeyError, TypeError, ModelError) as error:
        found, problem = False, error
    if not found:
        raise ModelError(f"{target} exists and is no {marker.kind}. Choose another path, or remove it.") from problem
    return values


def check_no_more(target: Target, more: Collection[str]) -> None:
    """Refuse a folder that has more than an export.

    Raises:
        ModelError: says what, or that it is a file.
    """
    if more == {""}:
        raise ModelError(f"{target} is a file, and an export is a folder. Choose another path, or remove it.")
    if more:
        raise ModelError(f"{target} has more than an export: {', '.join(sorted(more))}. Choose another path, or remove that.")


class Exported(NamedTuple):
    """What an export is: of which model, of `rows` or `vectors`, as which format."""

    model: str
    of: str
    format: str


def check_replaced(target: Target, had: Exported, new: Exported, replace: bool) -> None:
    """Refuse to put an export in the place of another one, unless that is to be replaced.

    Raises:
        ModelError: says what it is.
    """
    if replace or had == new:
        return
    what = f"of model {had.model}" if had.model != new.model else f"of {had.of}" if had.of != new.of else f"as {had.format}"
    raise ModelError(f"{target} has an export {what}. Choose another path, or use FORMAT {new.format} WITH (replace = true).")


def write_parquet(path: Path, rows: pa.RecordBatchReader) -> int:
    """Write a stream of rows as Parquet, and return how many there were."""
    import pyarrow.parquet as pq

    count = 0
    with storing(path), pq.ParquetWriter(path, rows.schema, compression="zstd", use_dictionary=["slot"]) as writer:
        for group in row_groups(rows):
            writer.write_table(group)
            count += group.num_rows
    return count


def write_csv(path: Path, rows: pa.RecordBatchReader) -> int:
    """Write a stream of rows as CSV with a header, arrays as JSON in a string, and return how many there were."""
    import pyarrow.csv as csv

    arrays = [field.name for field in rows.schema if pa.types.is_nested(field.type)]
    schema = pa.schema([field.with_type(pa.string()) if field.name in arrays else field for field in rows.schema])
    count = 0
    with storing(path), csv.CSVWriter(path, schema) as writer:
        for batch in rows:
            columns = [
                pa.array([json.dumps(v) for v in column.to_pylist()], pa.string()) if name in arrays else column
                for name, column in zip(schema.names, batch.columns, strict=True)
            ]
            writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=schema))
            count += batch.num_rows
    return count


def write_json(path: Path, rows: pa.RecordBatchReader) -> int:
    """Write a stream of rows as JSON, one object a line, times in ISO 8601, and return how many there were."""
    count = 0
    with storing(path), path.open("w", encoding="utf-8") as file:
        for batch in rows:
            file.writelines(json.dumps(row, default=lambda time: time.isoformat()) + "\n" for row in batch.to_pylist())
            count += batch.num_rows
    return count


class Format(NamedTuple):
    """A format of exported files: its name in SQL, which is also the files' suffix, and what writes one file."""

    name: str
    write: WriteFile


FORMATS = (Format("parquet", write_parquet), Format("csv", write_csv), Format("json", write_json))
