"""Models that learn from the versions of a Delta table."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import xpsql
from tests.cases import lengthy
from tests.streams.landing import COLUMNS, arrives, go_on, learned, rows_of, train
from xpsql.platform.errors import DataError, StatementError
from xpsql.platform.progress import SilentReporter

deltalake = pytest.importorskip("deltalake")


@pytest.fixture
def session(tmp_path: Path) -> Iterator[xpsql.Session]:
    with xpsql.connect(tmp_path / "warehouse", reporter=SilentReporter()) as session:
        yield session


@pytest.fixture
def clicks(tmp_path: Path) -> Path:
    folder = tmp_path / "delta.d" / "clicks"
    more(folder, tmp_path, "a", 400, 1)
    return folder


def more(table: Path, folder: Path, name: str, rows: int, seed: int, **how: Any) -> None:
    data = pq.read_table(arrives(folder, name, rows, seed), columns=COLUMNS.split(", "))
    deltalake.write_deltalake(table, data, mode="append", **how)


@lengthy
def test_versions_are_learned_once_and_as_files_are(session: xpsql.Session, clicks: Path, tmp_path: Path) -> None:
    stream = f"delta.`{clicks}`"
    assert learned(train(session, stream)) == (1, "ready", 400)
    assert learned(go_on(session, stream)) == (1, "nothing new", 0)
    (one,) = deltalake.DeltaTable(clicks).file_uris()
    more(clicks, tmp_path, "b", 100, 2)
    (other,) = {*deltalake.DeltaTable(clicks).file_uris()} - {one}
    assert learned(go_on(session, f"{stream} c", "c.*")) == (2, "ready", 100)
    assert learned(go_on(session, stream)) == (2, "nothing new", 0)
    settings = "WITH (batch_size = 64, workers = 1)"
    session.sql(f"TRAIN MODEL files USING xftrl TIME ts {settings} AS SELECT * FROM parquet.`{one}`")
    session.sql(f"CONTINUE MODEL files AS SELECT * FROM parquet.`{other}`")
    assert rows_of(session).equals(rows_of(session, "files"))
    (source,) = session.models.version("m", 2).manifest.sources
    assert (source.kind, source.name) == ("delta", str(clicks))


def test_compaction_brings_nothing_and_files_that_a_vacuum_removed_are_told(
    session: xpsql.Session, clicks: Path, tmp_path: Path
) -> None:
    stream = f"delta.`{clicks}`"
    train(session, stream)
    more(clicks, tmp_path, "b", 100, 2)
    deltalake.DeltaTable(clicks).optimize.compact()
    assert learned(go_on(session, stream)) == (2, "ready", 100)
    more(clicks, tmp_path, "c", 100, 3)
    table = deltalake.DeltaTable(clicks)
    table.optimize.compact()
    table.vacuum(0, enforce_retention_duration=False, dry_run=False)
    with pytest.raises(DataError, match="was removed before it was learned from: its retention is shorter"):
        go_on(session, stream)


@lengthy
@pytest.mark.parametrize("change", ["delete", "overwrite"])
def test_removed_rows_stop_a_stream_and_name_the_version(
    session: xpsql.Session, clicks: Path, tmp_path: Path, change: str
) -> None:
    stream = f"delta.`{clicks}`"
    train(session, stream)
    table = deltalake.DeltaTable(clicks)
    if change == "delete":
        table.delete("label = 1")
    else:
        deltalake.write_deltalake(clicks, table.to_pyarrow_table().slice(0, 10), mode="overwrite")
    with pytest.raises(DataError, match=r"Version 1 of the delta .* has removed or overwritten rows"):
        go_on(session, stream)
    assert learned(go_on(session, stream, settings=", data_loss = 'continue'")) == (1, "nothing new", 0)
    more(clicks, tmp_path, "b", 100, 2)
    assert learned(go_on(session, stream)) == (2, "ready", 100)
    deltalake.DeltaTable(clicks).delete("label = 0")
    more(clicks, tmp_path, "c", 50, 3)
    assert learned(go_on(session, stream, settings=", data_loss = 'continue'")) == (3, "ready", 50)
    assert learned(go_on(session, stream)) == (3, "nothing new", 0)


def test_a_log_that_was_cleaned_up_is_lost_data_that_names_the_version(
    session: xpsql.Session, clicks: Path, tmp_path: Path
) -> None:
    stream = f"delta.`{clicks}`"
    train(session, stream)
    for name, seed in (("b", 2), ("c", 3)):
        more(clicks, tmp_path, name, 100, seed)
    deltalake.DeltaTable(clicks).create_checkpoint()
    (clicks / "_delta_log" / f"{1:020}.json").unlink()
    with pytest.raises(DataError, match="has no version 1 any more, of 2, and 0 was learned"):
        go_on(session, stream)
    assert learned(go_on(session, stream, settings=", data_loss = 'continue'")) == (2, "ready", 100)


def test_a_table_by_partitions_is_refused_as_its_files_lack_columns(session: xpsql.Session, tmp_path: Path) -> None:
    data = pq.read_table(arrives(tmp_path, "a", 40, 1), columns=COLUMNS.split(", "))
    deltalake.write_deltalake(tmp_path / "parts", data, partition_by=["label"])
    with pytest.raises(StatementError, match="is partitioned by label, whose values are not in its files"):
        train(session, f"delta.`{tmp_path / 'parts'}`")
