"""Rows are written fast and whole, read back as they were, and say what is wrong with a disk or a file."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.warehouse.fill import MANIFEST, TABLE, fill, rows, train
from xpsql.platform.errors import ModelError
from xpsql.warehouse.entries import TableEntry
from xpsql.warehouse.files import VersionFiles
from xpsql.warehouse.models import Models
from xpsql.warehouse.names import part_name
from xpsql.warehouse.rows import ROW_GROUP_ROWS, RowWriter, read_rows, rows_schema, stored_parts

WIDE = TableEntry("v", 3, {"w": 3, "z": 1})


def batch(table: TableEntry, keys: int) -> pa.RecordBatch:
    """Return rows whose every number is different."""
    schema = rows_schema(table)
    columns = []
    for number, field in enumerate(schema):
        dim = table.columns.get(field.name, 1)
        values = pa.array(np.arange(keys * dim) % 60_000 + number)
        flat = values.cast(field.type.value_type if dim > 1 else field.type)
        columns.append(pa.FixedSizeListArray.from_arrays(flat, type=field.type) if dim > 1 else flat)
    return pa.RecordBatch.from_arrays(columns, schema=schema)


@pytest.mark.parametrize("table", [TABLE, WIDE])
def test_rows_read_back_as_they_were_written(tmp_path: Path, table: TableEntry) -> None:
    whole = batch(table, 1000)
    with RowWriter(tmp_path / part_name(0), table) as writer:
        for start in range(0, 1000, 300):
            writer.write(whole.slice(start, 300))
    assert writer.rows == 1000
    assert pa.Table.from_batches(read_rows(stored_parts(tmp_path), None, None)) == pa.Table.from_batches([whole])
    assert [b.schema.names for b in read_rows(stored_parts(tmp_path), ["w", "key"], None)] == [["w", "key"]]


def test_small_batches_become_row_groups_of_a_million(tmp_path: Path) -> None:
    part = batch(TABLE, ROW_GROUP_ROWS // 4)
    with RowWriter(tmp_path / part_name(0), TABLE) as writer:
        for _ in range(5):
            writer.write(part)
    metadata = pq.read_metadata(writer.path)
    assert [metadata.row_group(n).num_rows for n in range(metadata.num_row_groups)] == [ROW_GROUP_ROWS, ROW_GROUP_ROWS // 4]


def test_parts_are_read_in_order_of_their_numbers(tmp_path: Path) -> None:
    for part in (10, 2):
        with RowWriter(tmp_path / part_name(part), TABLE) as writer:
            writer.write(batch(TABLE, part))
    assert [f.path.name for f in stored_parts(tmp_path)] == ["part-00002.parquet", "part-00010.parquet"]
    assert [b.num_rows for b in read_rows(stored_parts(tmp_path), ["key"], None)] == [2, 10]


def test_a_table_without_rows_reads_as_empty(tmp_path: Path) -> None:
    with RowWriter(tmp_path / part_name(0), TABLE):
        pass
    assert sum(b.num_rows for b in read_rows(stored_parts(tmp_path), None, None)) == 0


@pytest.fixture
def small_files() -> Iterator[None]:
    """Let this process write files of at most 64 KiB."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_fails_the_version_and_leaves_the_old_one(tmp_path: Path, small_files: None) -> None:
    models = Models(tmp_path)
    train(models)
    with (
        pytest.raises(ModelError, match=r"Cannot write .*part-00000\.parquet: File too large\. .*ulimit"),
        models.begin("ctr", MANIFEST, replace=True) as draft,
    ):
        fill(draft, batch(TABLE, 10_000))
    assert [(v.number, v.manifest.status) for v in models.versions("ctr")] == [(1, "ready"), (2, "failed")]
    assert not (models.find("ctr", 2).folder / "rows").exists()
    assert [b.num_rows for b in models.version("ctr").rows("w")] == [3]


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "rows").touch()
    with pytest.raises(ModelError, match=r"Cannot write .*rows/w"):
        VersionFiles(tmp_path).writer(TABLE)


def test_who_writes_late_does_not_make_a_folder_again(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"Cannot write .*absent/part-00000\.parquet: No such file"):
        RowWriter(tmp_path / "absent" / part_name(0), TABLE)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("damage", [b"", b"PAR1", b"x" * 500])
def test_a_damaged_file_is_named(tmp_path: Path, damage: bytes) -> None:
    with RowWriter(tmp_path / part_name(0), TABLE) as writer:
        writer.write(rows())
    writer.path.write_bytes(damage)
    with pytest.raises(ModelError, match=r"part-00000\.parquet is damaged"):
        list(read_rows(stored_parts(tmp_path), None, None))


def test_an_unknown_table_is_answered_with_those_of_the_model(tmp_path: Path) -> None:
    models = Models(tmp_path)
    train(models)
    with pytest.raises(ModelError, match="has no table 'v', only: w"):
        models.version("ctr").files("v")
