"""ITEMS and LABEL of trainings that learn from what was taken: the model is that of joined rows; bad items are refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import xpsql
from tests.algorithms.uses import rows
from tests.cases import costly, costly_after_first, lengthy
from tests.notes import Notes
from tests.training.log import session, write
from xpsql.platform.errors import DataError, StatementError
from xpsql.platform.progress import SilentReporter
from xpsql.platform.training.online.planting import tree_of

__all__ = ["session"]

ROWS, ITEMS, OF_ITEMS = 3000, 40, 50
TOWERS = "two_tower (query = (user), item = (item, kind, tags, price), dim = 4)"
DRAWN = "two_tower (query = (user), item = (item, kind, tags, price), dim = 4, negatives = 30)"
WITH = "WITH (workers = 1, shards = 1, passes = 2)"


def log(folder: Path) -> str:
    """Write a log of items, one in eight of which is none of CATALOGUE's, and return it."""
    random = np.random.default_rng(4)
    columns = {
        "user": [f"u{user}" for user in random.integers(0, 30, ROWS)],
        "item": random.integers(0, ITEMS, ROWS).astype(np.int32),
        "click": random.integers(0, 2, ROWS),
    }
    return f"parquet.`{write(pa.table(columns), folder / 'log.parquet', 1000)}`"


CATALOGUE = (
    "SELECT id + 5 AS item, concat('k', id % 3) AS kind, array(concat('t', id % 4), 'all') AS tags, double(id) AS price "
    f"FROM range({OF_ITEMS})"
)


@pytest.fixture
def embedded(tmp_path: Path) -> Iterator[xpsql.Session]:
    with xpsql.connect(tmp_path / "embedded", "duckdb", SilentReporter()) as session:
        yield session


@costly_after_first
def test_items_are_joined_and_rows_that_were_not_taken_left_out(session: xpsql.Session, tmp_path: Path) -> None:
    read = log(tmp_path)
    joined = f"SELECT user, l.item, kind, tags, price FROM {read} l JOIN ({CATALOGUE}) i ON l.item = i.item WHERE click = 1"
    session.sql(f"CREATE TABLE joined AS {joined} ORDER BY user, l.item")
    session.sql(f"CREATE TABLE log AS SELECT * FROM {read} ORDER BY user, item")
    session.sql(f"TRAIN MODEL other USING {TOWERS} {WITH} AS SELECT * FROM joined")
    session.sql(f"TRAIN MODEL m USING {TOWERS} LABEL click ITEMS ({CATALOGUE}) {WITH} AS SELECT * FROM log")
    (counts, weights), (expected, known) = rows(session, "m"), rows(session, "other")
    assert counts == expected
    np.testing.assert_array_equal(weights, known)


@costly
def test_items_drawn_at_random_are_reported_from_and_not_counted(embedded: xpsql.Session, tmp_path: Path) -> None:
    read = log(tmp_path)
    embedded.sql(f"TRAIN MODEL m USING {DRAWN} LABEL click ITEMS ({CATALOGUE}) {WITH} AS SELECT * FROM {read}")
    taken = embedded.sql(f"SELECT * FROM {read} WHERE click = 1 AND item >= 5").arrow()
    counts = {row["key"]: row["count"] for row in rows(embedded, "m")[0]}
    keys = embedded.sql(f"SELECT id + 5 AS item, feature_key('item', id + 5) AS key FROM range({OF_ITEMS})").arrow().to_pylist()
    own = np.bincount(taken["item"].to_numpy(), minlength=OF_ITEMS + 5)
    assert {row["item"]: counts[row["key"]] for row in keys} == {row["item"]: 2 * own[row["item"]] for row in keys}
    total = embedded.sql("SELECT feature_key('(intercept)', NULL) AS key").arrow()["key"][0].as_py()
    assert counts[total] == 2 * len(taken)
    whole = f"SELECT user, l.item, kind, tags, price, click FROM {read} l JOIN ({CATALOGUE}) i ON l.item = i.item"
    measured = embedded.sql(f"SELECT examples, mae FROM ML.EVALUATE(MODEL m, ({whole}))").arrow().to_pylist()[0]
    assert measured["examples"] == len(taken)
    assert 0 < measured["mae"] < np.log(4096 + 30)
    described = {row["property"]: row["value"] for row in embedded.sql("DESCRIBE MODEL m").arrow().to_pylist()}
    assert (described["label"], described["items"]) == ("click", CATALOGUE)
    call = f"ML.EVALUATE(MODEL m, (SELECT user, item, click FROM {read}), ITEMS ({CATALOGUE}), 3)"
    ranked = embedded.sql(f"SELECT examples, missing FROM {call}").arrow().to_pylist()[0]
    clicked = embedded.sql(f"SELECT count(*) AS n FROM {read} WHERE click = 1").arrow()["n"][0].as_py()
    assert ranked == {"examples": clicked, "missing": clicked - len(taken)}
    embedded.sql(f"CONTINUE MODEL m AS SELECT * FROM {read}")  # with the same label and items
    assert {row["key"]: row["count"] for row in rows(embedded, "m")[0]} == {key: 2 * count for key, count in counts.items()}


@costly
def test_a_tree_has_all_items(embedded: xpsql.Session, tmp_path: Path) -> None:
    read = log(tmp_path)
    options = "tdm (item = (item, kind), history = (had), dim = 4, hidden = (4), beam = 4)"
    items = f"SELECT item, kind FROM ({CATALOGUE})"
    query = f"SELECT item, click, array(item, 7) AS had FROM {read}"
    embedded.sql(f"TRAIN MODEL m USING {options} LABEL click ITEMS ({items}) {WITH} AS {query}")
    version = embedded.models.version("m")
    assert len(tree_of(version).keys) == OF_ITEMS
    more = f"{items} UNION ALL SELECT 1000, 'k1'"
    embedded.sql(f"CONTINUE MODEL m ITEMS ({more}) AS {query}")
    assert len(tree_of(embedded.models.version("m")).keys) == OF_ITEMS + 1


REFUSED = [
    (TOWERS, f"({CATALOGUE} UNION ALL SELECT 7, 'k', NULL, 1)", "", r"ITEMS has the item 7 2 times.*at .ITEMS"),
    (TOWERS, f"({CATALOGUE} UNION ALL SELECT NULL, 'k', NULL, 1)", "", r"ITEMS has an item whose item is NULL.*at .ITEMS"),
    (TOWERS, f"({CATALOGUE} LIMIT 0)", "", "ITEMS returns no rows"),
    (
        TOWERS,
        f"(SELECT item + 100000 AS item, * EXCEPT (item) FROM ({CATALOGUE}))",
        "",
        "returns no rows whose click is 1 and whose item ITEMS has; there is nothing to learn",
    ),
    (TOWERS, f"(SELECT item AS itme FROM ({CATALOGUE}))", "", r"which item a row is about.*at .ITEMS"),
    (TOWERS, f"(SELECT price, item FROM ({CATALOGUE}))", "", "it needs the column price"),
    (TOWERS, f"(SELECT item, 'u' AS user FROM ({CATALOGUE}))", "", "Both the query and ITEMS return user"),
    (TOWERS, "(SELECT * FROM nowhere)", "", r"ITEMS: .*nowhere.*at .ITEMS"),
    (
        TOWERS,
        f"({CATALOGUE})",
        "WITH (missing_items = 'error')",
        r"rows are about items that ITEMS lacks, such as [0-4]\.",
    ),
    (DRAWN, f"(SELECT item, kind, tags FROM ({CATALOGUE}))", "", r"ITEMS lacks the column price.*at .ITEMS"),
]


def test_bad_items_are_refused_at_their_place(embedded: xpsql.Session, tmp_path: Path) -> None:
    read = log(tmp_path)
    for using, items, settings, message in REFUSED:
        price = ", 1.0 AS price" if using == DRAWN else ""
        with pytest.raises(StatementError, match=message):
            embedded.sql(f"TRAIN MODEL m USING {using} LABEL click ITEMS {items} {settings} AS SELECT *{price} FROM {read}")
        assert embedded.models.names() == [], message
    for label, message in (("clik", "Did you mean click"), ("user", "expects a number"), ("click, item", "one for two_tower")):
        with pytest.raises(StatementError, match=message):
            embedded.sql(f"TRAIN MODEL m USING two_tower LABEL {label} AS SELECT * FROM {read}")
    with pytest.raises(StatementError, match="The query returns no rows whose click is 1; there is nothing to learn"):
        embedded.sql(f"TRAIN MODEL m USING two_tower LABEL click AS SELECT user, item, 0 AS click FROM {read}")
    with pytest.raises(DataError, match=r"LABEL click must be 0 or 1; row [0-9]+ of .* has 2"):
        embedded.sql(f"TRAIN MODEL m USING two_tower LABEL click AS SELECT user, item, click + 1 AS click FROM {read}")


@costly
def test_rows_of_unknown_items_are_reported_and_explained(tmp_path: Path) -> None:
    read, reported = log(tmp_path), Notes()
    with xpsql.connect(tmp_path / "warehouse", "duckdb", reported) as session:
        statement = f"TRAIN MODEL m USING {TOWERS} LABEL click ITEMS ({CATALOGUE}) {WITH} AS SELECT * FROM {read}"
        explained = dict(session.sql(f"EXPLAIN {statement}").arrow().to_pydict().items())
        assert "items" in explained["property"]
        session.sql(statement)
    missing = session_count(read, tmp_path)
    assert [f"{missing:,} rows are about items that ITEMS lacks" in note for note in reported.notes] == [True]


def session_count(read: str, tmp_path: Path) -> int:
    with xpsql.connect(tmp_path / "other", "duckdb", Notes()) as session:
        return int(session.sql(f"SELECT count(*) AS n FROM {read} WHERE click = 1 AND item < 5").arrow()["n"][0].as_py())


@lengthy
def test_streams_have_the_features_of_items_and_take_no_clause(embedded: xpsql.Session, tmp_path: Path) -> None:
    read = log(tmp_path)
    embedded.sql(f"TRAIN MODEL m USING {TOWERS} LABEL click ITEMS ({CATALOGUE}) {WITH} AS SELECT * FROM {read}")
    (tmp_path / "stream").mkdir()
    taken = embedded.sql(
        f"SELECT user, l.item, kind, tags, price FROM {read} l JOIN ({CATALOGUE}) i ON l.item = i.item"
    ).arrow()
    write(taken, tmp_path / "stream" / "a.parquet", 1000)
    stream = f"SELECT * FROM STREAM read_files('{tmp_path}/stream')"
    for clause in (f"ITEMS ({CATALOGUE})", "LABEL price"):
        for publish in ("WITH (until = 'available')", "PUBLISH EVERY 1 SECOND"):
            with pytest.raises(StatementError, match=f"{clause[:5]} goes with a query that ends.*at .{clause[:5]}"):
                embedded.sql(f"CONTINUE MODEL m {clause} {publish} AS {stream}")
    embedded.sql(f"CONTINUE MODEL m WITH (until = 'available') AS {stream}")
    assert embedded.models.version("m").manifest.learned.examples == len(taken)
