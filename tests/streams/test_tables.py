"""Models that learn from a table of the warehouse, which INSERT lets grow."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import xpsql
from tests.streams.landing import COLUMNS, arrives, go_on, learned, rows_of, train
from xpsql.platform.errors import DataError, StatementError
from xpsql.platform.progress import SilentReporter


@pytest.fixture
def session(tmp_path: Path) -> Iterator[xpsql.Session]:
    with xpsql.connect(tmp_path / "warehouse", reporter=SilentReporter()) as session:
        session.sql(f"CREATE TABLE clicks AS SELECT {COLUMNS} FROM parquet.`{arrives(tmp_path, 'a', 400, seed=1)}`")
        yield session


def insert(session: xpsql.Session, path: Path, words: str = "INTO") -> None:
    session.sql(f"INSERT {words} clicks SELECT {COLUMNS} FROM parquet.`{path}`")


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
