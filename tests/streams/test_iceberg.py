"""Models that learn from the snapshots of an Iceberg table."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import xpsql
from tests.cases import costly, lengthy
from tests.engines.lake import TYPES, catalog, some
from tests.streams.landing import COLUMNS, arrives, go_on, learned, rows_of, train
from xpsql.platform.engines.iceberg import planned
from xpsql.platform.engines.parquet_scan import as_row_group
from xpsql.platform.errors import DataError, StatementError
from xpsql.platform.input.streams.base import Position
from xpsql.platform.input.streams.iceberg import IcebergStream
from xpsql.platform.progress import SilentReporter


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    return catalog(tmp_path / "catalog", monkeypatch)


@pytest.fixture
def clicks(lake: Any, tmp_path: Path) -> Any:
    first = pq.read_table(arrives(tmp_path, "a", 400, seed=1), columns=COLUMNS.split(", "))
    table = lake.create_table("sales.clicks", schema=first.schema)
    table.append(first)
    return table


@pytest.fixture
def session(tmp_path: Path) -> Iterator[xpsql.Session]:
    with xpsql.connect(tmp_path / "warehouse", reporter=SilentReporter()) as session:
        yield session


def more(table: Any, folder: Path, name: str, rows: int, seed: int) -> Path:
    path = arrives(folder, name, rows, seed)
    table.append(pq.read_table(path, columns=COLUMNS.split(", ")))
    return path


@lengthy
def test_what_is_appended_is_learned_once_and_as_from_files(session: xpsql.Session, clicks: Any, tmp_path: Path) -> None:
    assert learned(train(session, "lake.sales.clicks")) == (1, "ready", 400)
    assert learned(go_on(session, "lake.sales.clicks")) == (1, "nothing new", 0)
    more(clicks, tmp_path, "b", 100, 2)
    assert learned(go_on(session, "lake.sales.clicks c", "c.*")) == (2, "ready", 100)
    assert learned(go_on(session, "lake.sales.clicks")) == (2, "nothing new", 0)
    (source,) = session.models.version("m", 2).manifest.sources
    assert (source.kind, source.name) == ("iceberg", "lake.sales.clicks")
    assert source.position is not None
    assert source.position["to"]["snapshot"] == str(clicks.refresh().current_snapshot().snapshot_id)
    one, other = (file.path for file in planned(clicks, clicks.current_snapshot()).files)
    settings = "WITH (batch_size = 64, workers = 1)"
    session.sql(f"TRAIN MODEL files USING xftrl TIME ts {settings} AS SELECT * FROM parquet.`{one}`")
    session.sql(f"CONTINUE MODEL files AS SELECT * FROM parquet.`{other}`")
    assert rows_of(session).equals(rows_of(session, "files"))


@costly
def test_deleted_rows_stop_a_stream_and_name_the_snapshot(session: xpsql.Session, clicks: Any, tmp_path: Path) -> None:
    train(session, "lake.sales.clicks")
    clicks.delete("label = 1")
    deleted = clicks.current_snapshot().snapshot_id
    more(clicks, tmp_path, "b", 100, 2)
    with pytest.raises(DataError, match=f"Snapshot {deleted} of the iceberg lake.sales.clicks has overwritten or deleted rows"):
        go_on(session, "lake.sales.clicks")
    assert learned(go_on(session, "lake.sales.clicks", settings=", data_loss = 'continue'")) == (2, "ready", 100)
    assert learned(go_on(session, "lake.sales.clicks")) == (2, "nothing new", 0)
    clicks.delete("label = 1")
    with pytest.raises(DataError, match="has overwritten or deleted rows"):
        go_on(session, "lake.sales.clicks")
    assert learned(go_on(session, "lake.sales.clicks", settings=", data_loss = 'continue'")) == (2, "nothing new", 0)
    more(clicks, tmp_path, "c", 50, 3)
    assert learned(go_on(session, "lake.sales.clicks")) == (3, "ready", 50)


def test_a_table_that_was_rolled_back_is_an_error_that_names_both_snapshots(
    session: xpsql.Session, clicks: Any, tmp_path: Path
) -> None:
    first = clicks.current_snapshot().snapshot_id
    more(clicks, tmp_path, "b", 100, 2)
    second = clicks.current_snapshot().snapshot_id
    train(session, "lake.sales.clicks")
    clicks.manage_snapshots().rollback_to_snapshot(first).commit()
    with pytest.raises(DataError, match=rf"Snapshot {second} of the .* is no ancestor of its snapshot {first}"):
        go_on(session, "lake.sales.clicks")


def test_a_first_training_begins_with_the_rows_that_are_left(session: xpsql.Session, clicks: Any, tmp_path: Path) -> None:
    clicks.delete("label = 1")
    left = clicks.scan().to_arrow().num_rows
    more(clicks, tmp_path, "b", 100, 2)
    assert learned(train(session, "lake.sales.clicks")) == (1, "ready", left + 100)
    assert learned(go_on(session, "lake.sales.clicks")) == (1, "nothing new", 0)


def test_a_renamed_column_is_told(session: xpsql.Session, clicks: Any, tmp_path: Path) -> None:
    with clicks.update_schema() as change:
        change.rename_column("user", "who")
    with pytest.raises(DataError, match=r"has a column user, which the iceberg .* calls who by now"):
        train(session, "lake.sales.clicks", "label, who")


def test_a_table_that_is_not_there_is_told(session: xpsql.Session, lake: Any) -> None:
    with pytest.raises(StatementError, match=r"The catalog lake has no table sales\.none"):
        train(session, "lake.sales.none")


CHANGES = st.lists(st.one_of(st.integers(1, 4), st.sampled_from(["delete", "go on", "part"])), max_size=9)


@costly
@settings(max_examples=8, deadline=None, phases=(Phase.generate,), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(CHANGES, st.randoms())
def test_each_appended_row_comes_once_whatever_is_taken_when(
    monkeypatch: pytest.MonkeyPatch, changes: list[int | str], chance: random.Random
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        table = catalog(Path(folder) / "catalog", monkeypatch).create_table("sales.log", schema=TYPES)
        expected, found, rows = set[int](), list[int](), set[int]()
        position: Position = {}
        for number, change in enumerate([*changes, "go on"]):
            if change == "delete":
                gone = {x for x in rows if chance.random() < 0.4}
                if gone:
                    table.delete(f"x in ({', '.join(map(str, [*sorted(gone), -1, -2]))})")
                rows -= gone
                if not position:
                    expected -= gone
            elif isinstance(change, int):
                new = [number * 10 + i for i in range(change)]
                table.append(some(*new))
                rows.update(new)
                expected.update(new)
            else:
                stream = IcebergStream(("lake", "sales", "log"), Path(folder), forgives=True)
                splits = stream.news(position)
                taken = splits[: chance.randint(0, len(splits))] if change == "part" else splits
                position = stream.after(position, taken)
                found += [x for split in taken for x in pq.read_table(as_row_group(split).path)["x"].to_pylist()]
        assert len(found) == len(set(found))
        assert set(found) >= expected & rows
        table.catalog.close()
