"""Models that learn from a table of the warehouse, which INSERT lets grow."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import xpsql
from tests.cases import costly, lengthy
from tests.notes import Notes
from tests.streams.landing import COLUMNS, arrives, go_on, learned, rows_of, train
from xpsql.platform.engines.duckdb.engine import DuckDBEngine
from xpsql.platform.engines.parquet_scan import as_row_group
from xpsql.platform.errors import DataError, StatementError
from xpsql.platform.input.streams.base import Position
from xpsql.platform.input.streams.table import TableStream
from xpsql.platform.progress import SilentReporter


@pytest.fixture
def session(tmp_path: Path) -> Iterator[xpsql.Session]:
    with xpsql.connect(tmp_path / "warehouse", reporter=SilentReporter()) as session:
        session.sql(f"CREATE TABLE clicks AS SELECT {COLUMNS} FROM parquet.`{arrives(tmp_path, 'a', 400, seed=1)}`")
        yield session


def insert(session: xpsql.Session, path: Path, words: str = "INTO") -> None:
    session.sql(f"INSERT {words} clicks SELECT {COLUMNS} FROM parquet.`{path}`")


@lengthy
def test_what_is_inserted_is_learned_once(session: xpsql.Session, tmp_path: Path) -> None:
    assert learned(train(session, "clicks", "clicks.*")) == (1, "ready", 400)
    assert learned(go_on(session, "clicks")) == (1, "nothing new", 0)
    for number in range(2):
        insert(session, arrives(tmp_path, f"b{number}", 100, seed=2 + number))
    assert learned(go_on(session, "default.clicks c", "c.*")) == (2, "ready", 200)
    assert learned(go_on(session, "clicks")) == (2, "nothing new", 0)
    session.sql(f"TRAIN MODEL batch USING xftrl TIME ts WITH (batch_size = 64) AS SELECT {COLUMNS} FROM clicks LIMIT 400")
    session.sql(f"CONTINUE MODEL batch AS SELECT {COLUMNS} FROM parquet.`{tmp_path}/b*.parquet`")
    assert rows_of(session).equals(rows_of(session, "batch"))


@pytest.mark.parametrize("replaced", ["OVERWRITE", "REPLACE"])
def test_a_table_that_was_replaced_is_an_error_with_numbers(session: xpsql.Session, tmp_path: Path, replaced: str) -> None:
    train(session, "clicks")
    new = arrives(tmp_path, "new", 150, seed=3)
    if replaced == "OVERWRITE":
        insert(session, new, "OVERWRITE")
    else:
        session.sql(f"CREATE OR REPLACE TABLE clicks AS SELECT {COLUMNS} FROM parquet.`{new}`")
    with pytest.raises(DataError, match="clicks was replaced: 400 rows in 1 file of it were learned from, and none of the 1"):
        go_on(session, "clicks")
    assert learned(go_on(session, "clicks", settings=", data_loss = 'continue'")) == (2, "ready", 150)
    assert learned(go_on(session, "clicks")) == (2, "nothing new", 0)


def test_a_stream_is_of_the_warehouse(session: xpsql.Session) -> None:
    with pytest.raises(StatementError, match=r"There is no table click\. Did you mean clicks\?"):
        train(session, "click")
    with pytest.raises(StatementError, match="There is no database lake; the warehouse has one, named default"):
        train(session, "lake.clicks")


@pytest.fixture
def told(session: xpsql.Session) -> Notes:
    notes = Notes()
    session.reporter = notes
    return notes


@lengthy
def test_learned_rows_that_are_deleted_are_a_note_once_and_what_is_left_of_their_files_is_not_learned_again(
    session: xpsql.Session, tmp_path: Path, told: Notes
) -> None:
    train(session, "clicks")
    (gone,) = session.sql("DELETE FROM clicks WHERE label = 1").arrow().column(0).to_pylist()
    assert 0 < gone < 400
    assert learned(go_on(session, "clicks")) == (1, "nothing new", 0)
    insert(session, arrives(tmp_path, "b", 100, seed=2))
    assert learned(go_on(session, "clicks")) == (2, "ready", 100)
    words = f"{gone} rows of the table clicks were deleted after they were learned from"
    assert sum(words in note for note in told.notes) == 1
    insert(session, arrives(tmp_path, "c", 50, seed=3))
    assert learned(go_on(session, "clicks")) == (3, "ready", 50)
    assert sum(words in note for note in told.notes) == 1
    session.sql("DELETE FROM clicks")
    insert(session, arrives(tmp_path, "d", 60, seed=4))
    assert learned(go_on(session, "clicks")) == (4, "ready", 60)


def test_rows_that_are_deleted_before_they_are_learned_are_lost_data(session: xpsql.Session, tmp_path: Path) -> None:
    train(session, "clicks")
    insert(session, arrives(tmp_path, "b", 100, seed=2))
    (gone,) = session.sql("DELETE FROM clicks WHERE price > 1").arrow().column(0).to_pylist()
    left = session.sql("SELECT count(*) FROM clicks").arrow().column(0)[0].as_py()
    rest = 500 - gone - session.sql("SELECT count(*) FROM clicks").arrow().column(0)[0].as_py()
    assert (rest, left) == (0, 500 - gone)
    with pytest.raises(DataError, match=r"\d+ rows of the table clicks were deleted before they were learned from"):
        go_on(session, "clicks")
    row = go_on(session, "clicks", settings=", data_loss = 'continue'")
    assert (row["version"], row["status"]) == (2, "ready")
    assert 0 < row["examples"] < 100
    assert learned(go_on(session, "clicks")) == (2, "nothing new", 0)
    session.sql("TRAIN MODEL n USING xftrl WITH (until = 'available') AS SELECT label, user FROM STREAM clicks")


def test_rows_that_are_lost_are_passed_over_once_and_for_all_even_where_nothing_is_left_to_learn(
    session: xpsql.Session, tmp_path: Path
) -> None:
    train(session, "clicks")
    insert(session, arrives(tmp_path, "b", 100, seed=2))
    session.sql("DELETE FROM clicks")
    with pytest.raises(DataError, match="100 rows of the table clicks were deleted before they were learned from"):
        go_on(session, "clicks")
    assert learned(go_on(session, "clicks", settings=", data_loss = 'continue'")) == (1, "nothing new", 0)
    assert learned(go_on(session, "clicks")) == (1, "nothing new", 0)
    insert(session, arrives(tmp_path, "c", 50, seed=3))
    assert learned(go_on(session, "clicks")) == (2, "ready", 50)
    insert(session, arrives(tmp_path, "d", 70, seed=4))
    session.sql("DELETE FROM clicks")
    with pytest.raises(DataError, match="70 rows of the table clicks were deleted before they were learned from"):
        go_on(session, "clicks")


CHANGES = st.lists(st.one_of(st.integers(1, 5), st.sampled_from(["delete", "go on"])), max_size=12)


@costly
@settings(max_examples=15, deadline=None, phases=(Phase.generate,))
@given(CHANGES, st.randoms())
def test_a_stream_gives_each_row_once_that_was_not_deleted_before(changes: list[int | str], chance: random.Random) -> None:
    rows: set[int] = set()
    learned_rows: list[int] = []
    expected: set[int] = set()
    position: Position = {}
    with tempfile.TemporaryDirectory() as folder:
        engine, stream = DuckDBEngine(Path(folder)), TableStream("t", Path(folder), forgives=True)
        engine.execute("CREATE TABLE t (x INT)")
        for number, change in enumerate([*changes, "go on"]):
            if change == "delete":
                gone = {x for x in rows if chance.random() < 0.4}
                engine.execute(f"DELETE FROM t WHERE x IN ({', '.join(map(str, [*gone, -1]))})")
                rows -= gone
            elif change == "go on":
                splits = stream.news(position)
                if splits:
                    position = stream.after(position, splits)
                paths = list(dict.fromkeys(as_row_group(split).path for split in splits))
                learned_rows += [x for path in paths for x in pq.read_table(path)["x"].to_pylist()]
                expected |= rows
                assert not stream.waits(position)
            else:
                new = {number * 10 + i for i in range(int(change))}
                engine.execute(f"INSERT INTO t VALUES {', '.join(f'({x})' for x in sorted(new))}")
                rows |= new
        assert sorted(learned_rows) == sorted(expected)
        engine.close()
