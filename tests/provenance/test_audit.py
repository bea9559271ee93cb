"""The audit log: a line for each statement that changes something, and none that can be taken out unnoticed."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import xpsql
from tests.notes import Notes
from tests.training.log import log, write
from xpsql.platform.errors import XpsqlError
from xpsql.platform.provenance.audit import FILE, append, read
from xpsql.platform.provenance.changing import changes


@pytest.fixture
def embedded(tmp_path: Path) -> Iterator[xpsql.Session]:
    with xpsql.connect(tmp_path / "warehouse", reporter=Notes()) as session:
        yield session


def lines(session: xpsql.Session) -> list[dict[str, Any]]:
    return session.sql("SELECT * FROM ML.AUDIT()").arrow().to_pylist()


def test_what_changes_a_model_is_written_with_the_versions_served(embedded: xpsql.Session, tmp_path: Path) -> None:
    path = write(log(500), tmp_path / "log.parquet")
    trained = f"TRAIN MODEL m USING xftrl LABEL label AS SELECT label, user FROM parquet.`{path}`"
    embedded.sql(f"SELECT 1; {trained}; SHOW MODELS; CONTINUE MODEL m AS SELECT label, user FROM parquet.`{path}`")
    embedded.sql("ALTER MODEL m PROMOTE VERSION 1")
    with pytest.raises(XpsqlError):
        embedded.sql(trained)
    embedded.sql("DROP MODEL m")
    found = lines(embedded)
    assert [(row["model"], row["served_before"], row["served_after"], row["newest"]) for row in found] == [
        ("m", None, 1, 1), ("m", 1, 2, 2), ("m", 2, 1, 2), ("m", 1, 1, 2), ("m", 1, None, None),
    ]  # fmt: skip
    assert found[0]["statement"] == trained
    assert [row["error"] is not None for row in found] == [False, False, False, True, False]
    assert found[3]["error"].startswith("ModelError: Model m exists")
    assert all(row["intact"] and row["user"] and row["host"] and row["pid"] for row in found)


@pytest.mark.parametrize(
    ("text", "changed"),
    [
        ("  insert INTO t VALUES (1)", True),
        ("CREATE OR REPLACE TABLE t AS SELECT 1", True),
        ("CREATE TEMPORARY VIEW v AS SELECT 1", False),
        ("SELECT 'DROP MODEL m'", False),
        ("EXPLAIN TRAIN MODEL m USING xftrl AS SELECT 1", False),
        ("SHOW TRAIN MODEL m", False),
        ("DROPPED", False),
        ("REPRODUCE MODEL m VERSION 2", False),
        ("REPRODUCE MODEL m VERSION 2 AS again", True),
    ],
)
def test_statements_that_change_something_are_told_by_their_words(text: str, changed: bool) -> None:
    assert changes(text) is changed


def test_a_line_that_is_changed_or_taken_out_is_noticed(tmp_path: Path) -> None:
    for number in range(4):
        append(tmp_path, {"time": "2026-01-01T00:00:00+00:00", "statement": f"DROP MODEL m{number}"})
    assert read(tmp_path)["intact"].to_pylist() == [True] * 4
    whole = (tmp_path / FILE).read_text().splitlines(keepends=True)
    (tmp_path / FILE).write_text("".join([whole[0], whole[1].replace("m1", "m9"), *whole[2:]]))
    assert read(tmp_path)["intact"].to_pylist() == [True, True, False, True]
    (tmp_path / FILE).write_text("".join([whole[0], *whole[2:]]))
    assert read(tmp_path)["intact"].to_pylist() == [True, False, True]
    (tmp_path / FILE).write_text("".join([whole[0], "{no line}\n", *whole[1:]]))
    assert read(tmp_path)["intact"].to_pylist() == [True, False, False, True, True]


def test_a_line_that_was_cut_off_goes_and_the_chain_goes_on(tmp_path: Path) -> None:
    append(tmp_path, {"time": "2026-01-01T00:00:00+00:00", "statement": "x" * 200_000})
    with (tmp_path / FILE).open("ab") as file:
        file.write(b'{"time": "2026-01-0')
    append(tmp_path, {"time": "2026-01-02T00:00:00+00:00", "statement": "DROP MODEL m"})
    assert read(tmp_path)["intact"].to_pylist() == [True, True]


def test_many_writers_write_whole_lines(tmp_path: Path) -> None:
    def write_some() -> None:
        for _ in range(20):
            append(tmp_path, {"time": "2026-01-01T00:00:00+00:00", "statement": "DROP MODEL m"})

    threads = [threading.Thread(target=write_some) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert read(tmp_path)["intact"].to_pylist() == [True] * 80
    assert all(json.loads(line) for line in (tmp_path / FILE).read_text().splitlines())


def test_a_log_that_cannot_be_written_is_told_and_the_statement_has_run(embedded: xpsql.Session, tmp_path: Path) -> None:
    (tmp_path / "warehouse" / FILE).mkdir(parents=True)
    embedded.sql("CREATE TABLE t AS SELECT 1 AS x")
    assert embedded.sql("SELECT * FROM t").arrow().num_rows == 1
    assert any("The audit log was not written" in note for note in embedded.reporter.notes)
