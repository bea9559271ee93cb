"""Errors of casts and of functions of ours, the same on both engines: the column and row of a value, what a function takes."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import xpsql
from tests.cases import costly_after_first
from tests.sparks import SPARK_3
from tests.training.log import session  # noqa: F401  a fixture
from xpsql.platform.errors import StatementError

REMEDY = "Correct it, or write TRY_CAST, which gives NULL."
CASES = [
    ("SELECT CAST(price AS INT) FROM log", "Column price has 'n/a' in row 18 of log, which is no INT.", (1, 13)),
    (
        "SELECT 1,\n price::DOUBLE p FROM log WHERE id > 3",
        "has 'n/a' in row 14 of log that WHERE leaves, which is no DO",
        (2, 2),
    ),
    ("SELECT id FROM log WHERE CAST(price AS INT) = 7", "Column price has 'n/a' in row 18 of log, which is no INT.", (1, 31)),
    ("SELECT sum(x) FROM (SELECT int(trim(price)) AS x FROM log)", "is 'n/a' in row 18 of log, which is no INT.", (1, 37)),
    ("WITH l AS (SELECT * FROM log) SELECT price > 1 FROM l", "has 'n/a' in row 18 of l, which is no", (1, 38)),
    ("SELECT CAST(id * 100 AS TINYINT) FROM log", "id * 100 is '200' in row 3 of log, which is no TINYINT.", (1, 13)),
    (
        "TRAIN MODEL m USING xftrl AS SELECT label, date(price) AS p FROM log",
        "has '1' in row 1 of log, which is no DA",
        (1, 49),
    ),
    ("SELECT id FROM log WHERE year(CAST('2026-13-01' AS DATE)) = id", "The value '2026-13-01' is no DATE.", (1, 36)),
    ("CREATE TABLE t AS SELECT boolean(price) AS p FROM log", "has 'n/a' in row 18 of log, which is no BOOLEAN.", (1, 34)),
    (
        "SELECT ngrams(1, 2, 3)",
        "ngrams takes (words ARRAY<STRING>, least, most) -> ARRAY<STRING>, got (int, int, int).",
        (1, 8),
    ),
    (
        "SELECT 1, clip(array(1), 0, 1)",
        "clip takes (x DOUBLE, low DOUBLE, high DOUBLE) -> DOUBLE, got (array<int>, int,",
        (1, 11),
    ),
    ("SELECT bucketize(1, 2)", "bucketize takes (x DOUBLE, bounds ARRAY<DOUBLE>) -> INT, got (int, int).", (1, 8)),
    ("SELECT hash_bucket('a', -2)", "n is a number of buckets of at least 1, got -2.", (1, 8)),
    ("SELECT hash_bucket(1, 'x')", "hash_bucket takes (value, n BIGINT) -> BIGINT: the value 'x' is no", (1, 8)),
    (
        "SELECT quantile_bounds(price, 3) FROM log",
        "quantile_bounds takes (x DOUBLE, n) -> ARRAY<DOUBLE>. Column price h",
        (1, 8),
    ),
]


@costly_after_first
def test_a_value_of_another_type_is_told_with_its_column_and_row(session: xpsql.Session, tmp_path: Path) -> None:  # noqa: F811
    prices = [*(["1"] * 17), "n/a", *(["2"] * 12)]
    pq.write_table(pa.table({"id": range(30), "price": prices, "label": [0, 1] * 15}), tmp_path / "log.parquet")
    session.sql(f"CREATE TEMP VIEW log AS SELECT * FROM parquet.`{tmp_path}/log.parquet`")
    cases = [case for case in CASES if "::" not in case[0] or session.engine.name != "spark" or not SPARK_3]  # which has no ::
    for query, message, place in cases:
        with pytest.raises(StatementError) as caught:
            session.sql(query)
        assert message in caught.value.message, query
        assert caught.value.position is not None
        assert caught.value.position[:2] == place, query
    assert session.sql("SELECT count(*) FROM log WHERE TRY_CAST(price AS INT) IS NULL").fetchall() == [(1,)]


@costly_after_first
def test_a_value_that_is_not_found_again_is_told_without_its_row(session: xpsql.Session) -> None:  # noqa: F811
    for query in (
        "SELECT CAST(concat('n', '/a') AS INT)",
        "SELECT CAST(v AS INT) FROM (SELECT concat('n', '/a') AS v) LIMIT 1",
    ):
        with pytest.raises(StatementError, match="'n/a'"):
            session.sql(query)
    with pytest.raises(StatementError, match=f"Column v has 'n/a' in row 1 of the rows, which is no INT. {REMEDY}"):
        session.sql(
            "SELECT CAST(v AS INT) FROM (VALUES (concat('n', '/', 'a'))) AS t(w) CROSS JOIN (SELECT lower('N/A') AS v) s"
        )
