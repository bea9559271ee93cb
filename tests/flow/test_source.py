"""Which batches a training sees, and in what order."""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np
import pyarrow as pa

import xpsql
from xpsql.platform.flow.batches import Ladders
from xpsql.platform.flow.dealing import Dealer
from xpsql.platform.flow.plan import Plan, Use
from xpsql.platform.flow.slots import columns_of
from xpsql.platform.flow.source import Source
from xpsql.platform.flow.splits import splits_of
from xpsql.platform.ps.ladder import Ladder
from xpsql.platform.ps.table import BatchId

from ..training.log import write


def test_a_batch_is_known_by_its_pass_its_split_and_its_place_there(tmp_path: Path) -> None:
    table = pa.table({"label": np.arange(250) % 2, "user": np.arange(250)})
    path = write(table, tmp_path / "log.parquet", row_group_rows=100)
    with xpsql.connect(tmp_path / "warehouse") as session:
        scan = session.engine.scan(f"SELECT * FROM parquet.`{path}`")
    assert scan is not None
    columns = columns_of(table.schema, Plan("", "m", Use("xftrl", {}, None), (), ""), None)
    source = Source(scan, splits_of(scan), columns, 40, True, Ladders(Ladder(), Ladder()))
    batches = [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (2, 0), (2, 1)]
    expected = [BatchId(0, number, *place) for number in range(2) for place in batches]
    assert [batch.id for batch in source.batches(functools.partial(Dealer(3, 2, 1, fixed=False).next, 0))] == expected
