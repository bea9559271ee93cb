"""Batch size, workers, windows and estimates go by the rows that are learned: those that filters and VALIDATE leave."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import xpsql
from tests.cases import costly, costly_after_first, lengthy, slow_elsewhere
from tests.training.log import log, session, write
from xpsql.platform.engines import nested, parquet_scan

__all__ = ["session"]

DAYS, ROWS = 100, 2_500
TRAIN = "TRAIN MODEL {model} USING logistic_regression LABEL label IGNORE (day) {clauses} AS SELECT * FROM {rows}"


@pytest.fixture
def days(session: xpsql.Session, tmp_path: Path) -> str:
    """A table of a hundred days, 250,000 rows, each row group a day; and its day 7 as a table of its own."""
    one = log(ROWS).drop_columns(["ts", "scores", "vector"])
    many = pa.concat_tables([one] * DAYS).append_column("day", pa.array(np.repeat(np.arange(DAYS, dtype=np.int32), ROWS)))
    path = write(many, tmp_path / "days.parquet", ROWS)
    write(many.slice(7 * ROWS, ROWS), tmp_path / "day.parquet", ROWS)
    return f"parquet.`{path}`"


def trained(session: xpsql.Session, model: str, rows: str, clauses: str = "") -> dict[str, Any]:
    (row,) = session.sql(TRAIN.format(model=model, rows=rows, clauses=clauses)).arrow().to_pylist()
    return {name: value for name, value in row.items() if name not in ("model", "seconds")}


def explained(session: xpsql.Session, rows: str, clauses: str = "") -> dict[str, str]:
    text = "EXPLAIN " + TRAIN.format(model="none", rows=rows, clauses=clauses)
    return {row["property"]: row["value"] for row in session.sql(text).arrow().to_pylist()}


@lengthy
@costly_after_first
def test_one_day_of_a_long_table_is_learned_as_its_rows_alone(session: xpsql.Session, days: str, tmp_path: Path) -> None:
    of_table = trained(session, "a", f"{days} WHERE day = 7")
    alone = trained(session, "b", f"parquet.`{tmp_path / 'day.parquet'}`")
    assert (alone.pop("status"), of_table.pop("status")) == ("ready", "ready")
    assert alone == pytest.approx(of_table, rel=1e-12)
    a, b = (session.models.version(name, 1).manifest for name in "ab")
    assert a.sizes == b.sizes
    assert a.sizes.batch_size == 64
    assert [split.rows for split in a.splits] == [ROWS]


@costly_after_first
@pytest.mark.parametrize(
    ("condition", "rows"), [("day = 7", ROWS), ("day < 2 OR day = 50", 3 * ROWS), ("item = 3", None), ("day >= 0", DAYS * ROWS)]
)
def test_estimates_are_of_the_rows_that_a_filter_leaves(
    session: xpsql.Session, days: str, condition: str, rows: int | None
) -> None:
    counted = session.sql(f"SELECT count(*) AS n FROM {days} WHERE {condition}").fetchall()[0][0]
    assert rows in (None, counted)
    found = explained(session, f"{days} WHERE {condition}")
    assert found["rows"].startswith(f"{counted:,} (counted in ")
    assert found["batch size"] == str(64 if counted < 50_000 else 1024)


@slow_elsewhere
def test_the_batch_size_that_was_chosen_is_shown(session: xpsql.Session, days: str) -> None:
    trained(session, "a", f"{days} WHERE day = 7")
    asked = "SELECT value, given FROM ML.OPTIONS(MODEL a) WHERE option = 'batch_size'"
    assert session.sql(asked).fetchall() == [("64", False)]
    shown = {row["property"]: row["value"] for row in session.sql("DESCRIBE MODEL a").arrow().to_pylist()}
    assert shown["setting batch_size"] == "64"
    assert session.sql("SHOW VERSIONS OF MODEL a").arrow()["batch_size"].to_pylist() == [64]


@costly
def test_rows_that_are_held_out_do_not_count(session: xpsql.Session, days: str) -> None:
    found = explained(session, f"{days} WHERE day < 22", "VALIDATE ON LAST 0.1")
    assert found["rows"].startswith(f"{22 * ROWS * 9 // 10:,} (counted in ")
    assert found["rows"].endswith("without those held out)")
    assert found["batch size"] == "64"  # 55,000 rows would be learned in batches of 256
    assert explained(session, f"{days} WHERE day < 22")["batch size"] == "256"


@costly
@slow_elsewhere
def test_the_last_rows_of_a_filter_are_held_out(session: xpsql.Session, days: str) -> None:
    trained(session, "a", f"{days} WHERE day < 4", "VALIDATE ON LAST 0.25 WITH (batch_size = 100, held_out = 'none')")
    manifest = session.models.version("a", 1).manifest
    assert manifest.learned.examples == 3 * ROWS
    assert manifest.sizes.examples == 3 * ROWS


@costly
@slow_elsewhere
def test_windows_are_as_many_as_the_rows_that_are_learned_make(session: xpsql.Session, days: str) -> None:
    clauses = "EVALUATE EVERY 9 BATCHES ON 1 BATCHES WITH (batch_size = 50, workers = 1)"
    trained(session, "a", f"{days} WHERE day BETWEEN 20 AND 21", clauses)
    info = session.sql("SELECT * FROM ML.TRAINING_INFO(MODEL a)").arrow().to_pylist()
    assert len([row for row in info if row["window"] is not None and row["segment"] is None]) == 2 * ROWS // 500


@costly
@slow_elsewhere
def test_too_many_rows_to_count_are_judged_by_a_sample(
    session: xpsql.Session, days: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet_scan, "MOST_COUNTED", 1000)
    found = explained(session, f"{days} WHERE item <= 3")["rows"]
    counted = session.sql(f"SELECT count(*) AS n FROM {days} WHERE item <= 3").fetchall()[0][0]
    assert int(found.split()[0].replace(",", "")) == pytest.approx(counted, rel=0.02)
    assert found.endswith("(about: by the share that filters leave of a sample)")
    with pytest.raises(xpsql.StatementError, match="The query returns no rows"):
        explained(session, f"{days} WHERE user = 'u5x'")


@lengthy
@slow_elsewhere
def test_rows_of_arrays_that_a_filter_leaves_are_counted_and_told_as_a_sample_where_there_are_too_many(
    session: xpsql.Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = [[{"item": f"i{k % 5}", "label": k % 2} for k in range(request % 7)] for request in range(3_000)]
    table = pa.table({"user": np.arange(3_000).astype("U"), "age": np.arange(3_000) // 100, "shown": shown})
    path = write(table, tmp_path / "requests.parquet", 500)
    query = f"(SELECT user, inline(shown) AS (item, label) FROM parquet.`{path}` WHERE age BETWEEN 7 AND 9)"
    counted = session.sql(f"SELECT count(*) AS n FROM {query}").fetchall()[0][0]
    text = f"EXPLAIN TRAIN MODEL none USING xftrl LABEL label AS SELECT * FROM {query}"
    found = dict(session.sql(text.replace("SELECT * FROM (", "")[:-1]).fetchall())
    assert found["input"].startswith("nested rows")
    assert found["rows"].startswith(f"{counted:,} (counted in ")
    monkeypatch.setattr(nested, "MOST_COUNTED", 100)
    found = dict(session.sql(text.replace("SELECT * FROM (", "")[:-1]).fetchall())
    assert found["rows"].endswith("(about: by the share that filters leave of a sample)")
