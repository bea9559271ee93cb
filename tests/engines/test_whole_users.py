"""Staged rows of users who are read whole: no split cuts one, and a split is read as one table."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given, settings
from hypothesis import strategies as st

import xpsql
from tests.cases import lengthy
from xpsql.platform.engines import staging
from xpsql.platform.engines.parquet_scan import staged_scan
from xpsql.platform.progress import SilentReporter


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 30), max_size=12), st.integers(1, 40), st.integers(1, 30))
def test_whole_users_keep_all_rows_in_order_and_are_never_cut(counts, piece, least):
    users = np.repeat([f"u{n:02}" for n in range(len(counts))], counts) if sum(counts) else np.empty(0, str)
    table = pa.table({"user": pa.array(users.tolist(), pa.string()), "n": np.arange(len(users))})
    pieces = [table.slice(first, piece) for first in range(0, len(table), piece)]
    made = list(staging.whole_users(pieces, "user", least))
    assert pa.concat_tables([table.schema.empty_table(), *made]).equals(table)
    own = [set(one["user"].to_pylist()) for one in made]
    assert len(set().union(*own)) == sum(map(len, own))


def test_a_user_longer_than_any_row_group_is_one_split_that_is_read_as_one_table(tmp_path: Path) -> None:
    rows = staging.ROW_GROUP_ROWS + 5_000
    users = ["a"] * 10 + ["b"] * rows + ["c"] * 10 + ["d"] * 1_000
    table = pa.table({"user": users, "n": np.arange(len(users))})
    pq.write_table(table, tmp_path / "part-0.parquet", row_group_size=50_000)
    found = staging.by_user(staged_scan((str(tmp_path / "part-0.parquet"),), table.schema), "user", tmp_path)
    tables = [list(found.read(split, ["user", "n"], 1_000)) for split in found.splits()]
    assert [len(one) for one in tables] == [1] * len(tables)
    assert pa.concat_tables([one[0] for one in tables]).cast(table.schema).equals(table)
    own = [set(one[0]["user"].to_pylist()) for one in tables]
    assert sum(map(len, own)) == 4
    assert [path.name for path in tmp_path.glob("*.parquet")] == [Path(found.files[0]).name]


@lengthy
def test_a_training_of_users_events_cuts_no_user_between_splits_nor_between_learning_and_validation(tmp_path: Path) -> None:
    users, each = 130, 1_000
    with xpsql.connect(tmp_path / "warehouse", reporter=SilentReporter()) as session:
        session.sql(
            f"TRAIN MODEL m USING sequence (dim = 4, length = 8, layers = 1, hidden = (4)) LABEL click GROUP user TIME ts "
            f"VALIDATE ON LAST 0.0123 WITH (batch_size = 8192, held_out = 'none') AS "
            f"SELECT CONCAT('u', LPAD(CAST(id DIV {each} AS STRING), 4, '0')) AS user, id AS ts, id % 7 AS item, "
            f"CAST(id % 3 = 0 AS INT) AS click FROM range({users * each})"
        )
        manifest = session.models.version("m").manifest
        assert len(manifest.splits) == 2
        assert [split.rows % each for split in manifest.splits] == [0, 0]
        assert manifest.learned.examples == (users - 2) * each
