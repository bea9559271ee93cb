"""EXPORT MODEL ... VECTORS writes what ML.RECOMMEND ranks by, and deltas that lead from one export to the next."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import xpsql
from tests.cases import costly
from tests.training.log import write
from xpsql.platform.progress import SilentReporter

TOWERS = "two_tower (query = (user, had), item = (item, kind), dim = 4)"
ITEMS = "(SELECT DISTINCT item, kind FROM log)"


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[xpsql.Session]:
    folder: Path = tmp_path_factory.mktemp("vectors")
    random = np.random.default_rng(0)
    user, item = random.integers(0, 30, 600), random.integers(0, 12, 600)
    log = {"user": user, "had": [[int(i), int(i) // 2] for i in item], "item": item, "kind": [f"k{i % 3}" for i in item]}
    with xpsql.connect(folder, reporter=SilentReporter()) as opened:
        opened.sql(f"CREATE TABLE log AS SELECT * FROM parquet.`{write(pa.table(log), folder / 'log.parquet')}`")
        opened.sql(f"TRAIN MODEL m USING {TOWERS} AS SELECT * FROM log")
        opened.sql("CONTINUE MODEL m AS SELECT * FROM log WHERE item = 3")
        opened.sql("TRAIN MODEL words USING xftrl AS SELECT 1 AS label, kind FROM log")
        yield opened


def read(session: xpsql.Session, table: str) -> dict[int, np.ndarray]:
    rows = session.sql(f"SELECT * FROM {table}").arrow()
    return dict(zip(rows.column(0).to_pylist(), map(np.array, rows["vector"].to_pylist()), strict=True))


def test_the_product_of_what_is_exported_is_the_score(session: xpsql.Session, tmp_path: Path) -> None:
    (reported,) = session.sql(f"EXPORT MODEL m VECTORS OF ITEMS {ITEMS} TO TABLE of_items").arrow().to_pylist()
    assert (reported["rows"], reported["target"]) == (12, "of_items")
    users = "(SELECT user, array(1, 2) AS had FROM range(5) AS t(user))"
    session.sql(f"EXPORT MODEL m VECTORS OF QUERY {users} TO '{tmp_path / 'users'}' FORMAT parquet")
    queries = pq.read_table(tmp_path / "users").to_pydict()
    items = read(session, "of_items")
    best = session.sql(f"SELECT * FROM ML.RECOMMEND(MODEL m, {users}, 12, ITEMS {ITEMS})").arrow().to_pylist()
    own = dict(zip(queries["user"], queries["vector"], strict=True))
    assert len(best) == 60
    for row in best:
        assert row["score"] == pytest.approx(np.dot(own[row["user"]], items[row["item"]]), abs=1e-5)


@costly
def test_a_delta_leads_from_an_export_to_the_next(session: xpsql.Session, spark: SparkSession, tmp_path: Path) -> None:
    some = "(SELECT DISTINCT item, kind FROM log WHERE item > 0)"
    session.sql(f"EXPORT MODEL m VERSION 1 VECTORS OF ITEMS {some} TO TABLE earlier")
    later = "(SELECT DISTINCT item, kind FROM log WHERE item < 11)"
    session.sql(f"EXPORT MODEL m VECTORS OF ITEMS {later} TO TABLE full")
    export = f"EXPORT MODEL m VECTORS OF ITEMS {later} TO TABLE delta DELTA FROM TABLE earlier WITH (replace = true)"
    session.sql(export)
    merged = (
        "(SELECT item, vector FROM earlier WHERE item NOT IN (SELECT item FROM delta) UNION ALL "
        "SELECT item, vector FROM delta WHERE NOT deleted)"
    )
    found, whole = read(session, merged), read(session, "full")
    assert found.keys() == whole.keys()
    assert all(np.array_equal(found[item], whole[item]) for item in whole)
    gone = session.sql("SELECT item FROM delta WHERE deleted").arrow().column(0).to_pylist()
    assert gone == [11]
    assert 0 in read(session, "(SELECT * FROM delta WHERE NOT deleted)")
    with xpsql.connect(session.models.warehouse, spark, SilentReporter()) as there:
        text = "EXPORT MODEL m VERSION 1 VECTORS OF ITEMS (SELECT * FROM VALUES (3, 'k0') AS t(item, kind)) TO '{}' FORMAT json"
        paths = [tmp_path / name for name in ("here", "there")]
        for one, path in zip((session, there), paths, strict=True):
            one.sql(text.format(path))
        here, other = (b"".join(p.read_bytes() for p in sorted(path.glob("part-*.json"))) for path in paths)
        assert here == other != b""


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("words VECTORS OF ITEMS (SELECT kind FROM log) TO TABLE t", "xftrl has none of its own"),
        ("m VECTORS OF ITEMS (SELECT item, kind FROM log) TO TABLE t", r"has a item \d+ \d+ times.*SELECT DISTINCT"),
        ("m VECTORS OF ITEMS (SELECT DISTINCT item FROM log) TO TABLE t", "needs the column kind"),
        ("m VECTORS OF QUERY (SELECT DISTINCT user FROM log) TO TABLE t", "needs the column had"),
        ("m VECTORS OF USERS (SELECT 1) TO TABLE t", "Expected whose vectors.*ITEMS.*QUERY"),
        (f"m VECTORS OF ITEMS {ITEMS} TO TABLE t DELTA FROM TABLE nothing", "nothing"),
        (
            f"m VECTORS OF ITEMS {ITEMS} TO TABLE t DELTA FROM TABLE log",
            "an earlier export of these vectors, with the columns item and vector; log has user, ",
        ),
    ],
)
def test_what_cannot_be_exported_is_refused(session: xpsql.Session, statement: str, message: str) -> None:
    with pytest.raises(xpsql.StatementError, match=message):
        session.sql(f"EXPORT MODEL {statement}")


def test_a_column_of_one_side_is_not_read_from_the_other(session: xpsql.Session) -> None:
    users = "(SELECT user, array(1) AS had, 'k0' AS kind FROM range(5) AS t(user))"
    with pytest.raises(xpsql.StatementError, match="learned kind of the item; return it by ITEMS, in place of the query"):
        session.sql(f"SELECT * FROM ML.RECOMMEND(MODEL m, {users}, 2, ITEMS (SELECT DISTINCT item FROM log))")
