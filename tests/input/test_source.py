"""Which batches a training sees, and in what order."""

from __future__ import annotations

import dataclasses
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import xpsql
from tests.training.log import write
from xpsql.algorithms.base import Algorithm
from xpsql.algorithms.items.slrm import SlrmOptions, slrm
from xpsql.algorithms.items.xsvd import XsvdOptions, xsvd
from xpsql.algorithms.linear.xftrl import XftrlOptions, xftrl
from xpsql.platform.engines.parquet_scan import ParquetScan
from xpsql.platform.errors import DataError
from xpsql.platform.input.batches import Batch, Ladders
from xpsql.platform.input.columns import Columns
from xpsql.platform.input.dealing import TurnAssignment
from xpsql.platform.input.encoder import Encoder
from xpsql.platform.input.slots import columns_of
from xpsql.platform.input.source import End, Source
from xpsql.platform.input.timing import Clock
from xpsql.platform.ps.compiled.ladder import Ladder
from xpsql.platform.ps.messages import BatchId
from xpsql.platform.ps.watermarks import Turn, turns_of
from xpsql.platform.training.plan import Plan, Use
from xpsql.warehouse.trainings.progress import READING

ROWS, GROUP, BATCH = 250, 100, 40


def source(session: xpsql.Session, folder: Path, condition: str = "") -> Source:
    table = pa.table({"label": np.arange(ROWS) % 2, "user": np.arange(ROWS)})
    path = write(table, folder / "log.parquet", row_group_rows=GROUP)
    scan = session.engine.scan(f"SELECT * FROM parquet.`{path}` {condition}")
    assert isinstance(scan, ParquetScan)
    columns = columns_of(table.schema, Plan("", "m", Use("xftrl", {}, XftrlOptions()), (), "").roles, None)
    return source_of(scan, columns, xftrl(XftrlOptions(), columns.layout))


def source_of(scan: ParquetScan, columns: Columns, algorithm: Algorithm) -> Source:
    encoder, ladders = Encoder(columns, algorithm, seed=0, compact=True), Ladders(Ladder(), Ladder())
    return Source(scan, scan.splits(), encoder, columns.learned, BATCH, ladders, epoch=3, before=0)


def taken(of: Source, turns: list[TurnAssignment]) -> list[Batch | End]:
    remaining: Iterator[TurnAssignment] = iter(turns)
    return list(of.batches(lambda: next(remaining, None), Clock(READING)))


def test_a_batch_is_known_by_its_pass_its_split_and_its_place_there(session: xpsql.Session, tmp_path: Path) -> None:
    found = taken(source(session, tmp_path), [TurnAssignment(turn) for turn in turns_of(3, 2)])
    numbers = [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (2, 0), (2, 1)]
    expected = [BatchId(3, number, *place) for number in range(2) for place in numbers]
    assert [item.id for item in found if isinstance(item, Batch)] == expected


def test_a_turn_ends_with_the_number_of_its_batches(session: xpsql.Session, tmp_path: Path) -> None:
    found = taken(source(session, tmp_path), [TurnAssignment(Turn(0, 2)), TurnAssignment(Turn(0, 0))])
    assert [item for item in found if isinstance(item, End)] == [End(Turn(0, 2), 2), End(Turn(0, 0), 3)]
    assert isinstance(found[2], End)
    assert isinstance(found[-1], End)


@pytest.mark.parametrize("condition", ["", "WHERE user % 3 > 0"])
def test_a_turn_taken_up_later_has_the_rest_of_its_batches(condition: str, session: xpsql.Session, tmp_path: Path) -> None:
    input_ = source(session, tmp_path, condition)
    whole = [item for item in taken(input_, [TurnAssignment(Turn(0, 0))]) if isinstance(item, Batch)]
    for start in range(len(whole) + 2):
        *rest, end = taken(input_, [TurnAssignment(Turn(0, 0), start, applied=start, counted=start)])
        assert end == End(Turn(0, 0), len(whole))
        for item, expected in zip(rest, whole[start:], strict=True):
            assert isinstance(item, Batch)
            assert item.id == expected.id
            np.testing.assert_array_equal(item.keys, expected.keys)
            np.testing.assert_array_equal(item.label, expected.label)


def test_batches_say_what_shards_and_metrics_have_of_them(session: xpsql.Session, tmp_path: Path) -> None:
    found = taken(source(session, tmp_path), [TurnAssignment(Turn(0, 0), 0, applied=1, counted=0, reached=2)])
    found += taken(source(session, tmp_path), [TurnAssignment(Turn(0, 0), 0, applied=1, counted=2, reached=1)])
    assert [(item.applied, item.counted, item.fresh) for item in found if isinstance(item, Batch)] == [
        (True, False, False),
        (False, False, False),
        (False, False, True),
        (True, True, False),
        (False, True, True),
        (False, False, True),
    ]


def test_a_split_without_rows_left_still_ends(session: xpsql.Session, tmp_path: Path) -> None:
    assert taken(source(session, tmp_path, "WHERE user + 0 < 100"), [TurnAssignment(Turn(1, 2))]) == [End(Turn(1, 2), 0)]


def test_a_file_that_is_gone_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"gone.parquet cannot be read as Parquet: .*No such file"):
        ParquetScan((str(tmp_path / "gone.parquet"),), {}, None, (), pa.schema([])).splits()


@pytest.mark.parametrize("pairs", [False, True])
def test_rows_of_items_not_taken_are_made_a_few_at_a_time_where_histories_are_long(
    session: xpsql.Session, tmp_path: Path, pairs: bool
) -> None:
    random = np.random.default_rng(0)
    history = pa.FixedSizeListArray.from_arrays(random.integers(0, 300, 1000 * 100), 100).cast(pa.list_(pa.int64()))
    table = pa.table({"label": np.ones(1000, np.int32), "item": random.integers(0, 300, 1000), "history": history})
    scan = session.engine.scan(f"SELECT * FROM parquet.`{write(table, tmp_path / 'log.parquet', row_group_rows=1000)}`")
    assert isinstance(scan, ParquetScan)
    plan = Plan("", "m", Use("slrm", {}, SlrmOptions()), (), "")
    columns = dataclasses.replace(columns_of(table.schema, plan.roles, None), intercept=True)
    of_items = XsvdOptions(user=(), item=("item",), feedback=("history",), negatives=20)
    made = source_of(scan, columns, (slrm(SlrmOptions(), columns.layout) if pairs else xsvd(of_items, columns.layout)))
    turns, examples = iter([TurnAssignment(Turn(0, 0))]), 0
    tracemalloc.start()
    try:
        for batch in made.batches(lambda: next(turns, None), Clock(READING)):
            examples += batch.examples if isinstance(batch, Batch) else 0
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert examples == 1000 * 21
    assert peak < 30e6
