"""What would mislead a search is told by EXPLAIN, which trains nothing, and by TRAIN alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import xpsql
from tests.cases import costly_after_first, lengthy
from tests.training.auto.logs import planted, written
from tests.training.auto.test_auto import Notes, with_leak
from xpsql.platform.errors import StatementError

ROWS = 2000


def with_id(table: pa.Table) -> pa.Table:
    random = np.random.default_rng(0)
    return table.append_column("request", pa.array([f"r{number}" for number in random.permutation(ROWS)]))


def with_counter(table: pa.Table) -> pa.Table:
    return table.append_column("counter", pa.array(np.arange(ROWS) + 5))


def with_copy(table: pa.Table) -> pa.Table:
    return table.append_column("copy", pa.array([f"other {value}" for value in table.column("s0").to_pylist()]))


def repeated(table: pa.Table) -> pa.Table:
    return pa.concat_tables([table.slice(0, ROWS // 2)] * 2).drop_columns(["ts"])


def by_label(table: pa.Table) -> pa.Table:
    return table.drop_columns(["ts"]).sort_by("label")


def out_of_order(table: pa.Table) -> pa.Table:
    return table.take(pa.array(np.random.default_rng(0).permutation(ROWS)))


TRAPS: Mapping[str, tuple[Callable[[pa.Table], pa.Table], str]] = {
    "a value a row": (with_id, "Column request: "),
    "a counter": (with_counter, "Column counter: "),
    "a copy": (with_copy, "Column copy: the same as s0, value for value"),
    "rows twice": (repeated, "of the later rows equal an earlier row in all columns"),
    "sorted labels": (by_label, "Labels come in runs"),
    "a timestamp without TIME": (lambda table: table, "ts is a timestamp: TIME ts"),
    "rows out of order": (out_of_order, "Rows are not in order of ts"),
    "a leak": (with_leak, "Column clicked alone tells the label: AUC 1.000"),
}


@lengthy
@costly_after_first
@pytest.mark.parametrize("trap", TRAPS)
def test_a_trap_is_told_by_explain_and_by_training(trap: str, tmp_path: Path) -> None:
    spoils, said = TRAPS[trap]
    query, notes = written(spoils(planted(ROWS)), tmp_path / "log.parquet"), Notes()
    with xpsql.connect(tmp_path / "warehouse", "duckdb", notes) as session:
        statement = f"TRAIN MODEL m USING auto (leaks = 'drop') BUDGET 1 TRIALS AS {query}"
        told = [row["value"] for row in session.sql(f"EXPLAIN {statement}").arrow().to_pylist() if row["property"] == "note"]
        assert not session.models.exists("m")
        session.sql(statement)
    for texts in (told, notes.notes):
        assert any(said in text for text in texts), texts


def test_a_log_without_traps_has_no_notes(tmp_path: Path) -> None:
    query = written(planted(ROWS), tmp_path / "log.parquet")
    with xpsql.connect(tmp_path / "warehouse", "duckdb", Notes()) as session:
        found = session.sql(f"EXPLAIN TRAIN MODEL m USING auto TIME ts BUDGET 1 TRIALS AS {query}").arrow().to_pylist()
    assert [row["value"] for row in found if row["property"] == "note"] == []


def test_a_leak_that_few_held_out_rows_would_hide_is_refused_before_anything_is_trained(tmp_path: Path) -> None:
    query, notes = written(with_leak(planted(ROWS)), tmp_path / "log.parquet"), Notes()
    with xpsql.connect(tmp_path / "warehouse", "duckdb", notes) as session:
        with pytest.raises(StatementError, match="IGNORE \\(clicked\\)"):
            session.sql(f"TRAIN MODEL m USING auto BUDGET 1 TRIALS AS {query}")
        assert not any("Trial" in note for note in notes.notes)


def test_labels_that_are_all_alike_are_told_by_their_number(tmp_path: Path) -> None:
    table = planted(ROWS).drop_columns(["label"]).append_column("label", pa.array(np.ones(ROWS, np.int32)))
    query = written(table, tmp_path / "log.parquet")
    session = xpsql.connect(tmp_path / "warehouse", "duckdb", Notes())
    with session, pytest.raises(StatementError, match="by auc on 400 rows held out, whose labels are all 1"):
        session.sql(f"TRAIN MODEL m USING auto TIME ts BUDGET 1 TRIALS AS {query}")
