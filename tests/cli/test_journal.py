"""The journal of a supervised run: what a process that takes over runs, and what it does not."""

from __future__ import annotations

from contextlib import closing, nullcontext, suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from tests.cases import lengthy
from xpsql.platform.cli import journal as journals
from xpsql.platform.cli.journal import Journal, repeatable
from xpsql.platform.errors import StatementError, XpsqlError
from xpsql.platform.session import Session, run_step
from xpsql.platform.sql.script import parse_script

LOG = "SELECT CAST(id % 7 AS STRING) AS s, id % 2 AS label FROM range(100)"
LEARN = f"{LOG} WHERE id < (SELECT max(k) FROM upto)"
SCRIPT = f"""\
CREATE TEMPORARY VIEW upto AS SELECT 60 AS k;
CREATE TABLE runs AS SELECT 1 AS n;
TRAIN MODEL m USING xftrl AS {LEARN};
INSERT INTO runs SELECT 2;
CONTINUE MODEL m AS {LEARN};
SELECT count(*) AS c FROM runs"""


def run(session: Session, path: Path, until: int, finish: bool, script: str = SCRIPT) -> list[Any]:
    """Run statements up to one, by number, and let the process die: after its work, before it says so; or before its work."""
    steps, given = parse_script(script, {}, None, session.engine.statements), []
    journal = Journal(path)

    def died(of: Session, step: Any) -> Any:
        if step is steps[until]:
            raise KeyboardInterrupt
        return run_step(of, step)

    left = journal.run(session, steps, script)
    with nullcontext() if finish else patch.object(journals, "run_step", died), suppress(KeyboardInterrupt), closing(left):
        for result in left:
            given.append(None if result.table is None else result.table.to_pylist())
            if journal.under_way is not None and journal.under_way.number == until:
                break
    return given


def another(session: Session) -> Session:
    """Return a session of a process that comes after: without its temporary views."""
    session.engine.execute("DROP VIEW IF EXISTS upto")
    return session


@lengthy
@pytest.mark.parametrize("until", [0, 2, 4, 5])
@pytest.mark.parametrize("finish", [True, False])
def test_a_run_that_died_goes_on_as_if_nothing_had_happened(session: Session, tmp_path: Path, until: int, finish: bool) -> None:
    path = tmp_path / "journal"
    run(session, path, until, finish)
    assert Journal(path).under_way is not None
    given = run(another(session), path, len(SCRIPT), True)
    assert given[-1] == [{"c": 2}]
    assert Journal(path).under_way is None
    versions = session.sql("SHOW VERSIONS OF MODEL m").arrow().to_pylist()
    assert [(line["version"], line["examples"]) for line in versions] == [(1, 60), (2, 60)]


@pytest.mark.parametrize("finish", [True, False])
def test_what_may_have_done_its_work_is_not_run_twice(session: Session, tmp_path: Path, finish: bool) -> None:
    run(session, tmp_path / "journal", 3, finish)
    with pytest.raises(StatementError, match=r"it is not known whether its work was done\..*\(line 4"):
        run(another(session), tmp_path / "journal", len(SCRIPT), True)
    assert session.sql("SELECT count(*) AS c FROM runs").arrow().to_pylist() == [{"c": 2 if finish else 1}]
    assert session.models.numbers("m") == [1]


def test_a_line_that_was_cut_by_the_death_is_as_if_it_were_not_there(session: Session, tmp_path: Path) -> None:
    path = tmp_path / "journal"
    run(session, path, 2, True)
    with path.open("a") as file:
        file.write('{"ended": ')
    assert Journal(path).under_way is not None
    assert run(another(session), path, len(SCRIPT), True)[-1] == [{"c": 2}]
    assert Journal(path).under_way is None
    assert session.models.numbers("m") == [1, 2]


def test_a_script_that_changed_meanwhile_is_refused(session: Session, tmp_path: Path) -> None:
    run(session, tmp_path / "journal", 1, True)
    with pytest.raises(XpsqlError, match="The script was changed while it ran"):
        run(another(session), tmp_path / "journal", 9, True, SCRIPT.replace("60", "61"))


def test_the_journal_names_the_statement_under_way(session: Session, tmp_path: Path) -> None:
    run(session, tmp_path / "journal", 2, False)
    under_way = Journal(tmp_path / "journal").under_way
    assert under_way is not None
    assert (under_way.line, under_way.text.split(" USING")[0]) == (3, "TRAIN MODEL m")


@pytest.mark.parametrize(
    ("text", "is_repeatable"),
    [
        ("select 1", True),
        ("(SELECT 1) UNION ALL (SELECT 2)", True),
        ("WITH a AS (SELECT 1) SELECT * FROM a", True),
        ("WITH a AS (SELECT 1) INSERT INTO t SELECT * FROM a", False),
        ("INSERT INTO t SELECT 1", False),
        ("INSERT OVERWRITE t SELECT * FROM log", True),
        ("DELETE FROM t WHERE day = '2026-11-10'", True),
        ("DELETE FROM t WHERE x > (SELECT avg(x) FROM t)", False),
        ("ALTER TABLE t DROP IF EXISTS PARTITION (day = 1)", True),
        ("ALTER TABLE t DROP PARTITION (day = 1)", False),
        ("INSERT OVERWRITE TABLE t SELECT n + 1 FROM t", False),
        ("CREATE TABLE t AS SELECT 1", False),
        ("CREATE TABLE IF NOT EXISTS t AS SELECT 1", True),
        ("CREATE TABLE t AS SELECT 'IF NOT EXISTS'", False),
        ("CREATE OR REPLACE TABLE t AS SELECT * FROM log", True),
        ("CREATE OR REPLACE TABLE `t` AS SELECT n + 1 FROM t", False),
        ("DROP TABLE t", False),
        ("DROP TABLE IF EXISTS t", True),
        ("EXPORT MODEL m TO 'x'", False),
        ("EXPORT MODEL m TO 'x' WITH (replace = true)", True),
        ("ALTER MODEL m PROMOTE LAST", True),
        ("ALTER TABLE t ADD COLUMN c INT", False),
        ("SHRINK MODEL m", False),
    ],
)
def test_statements_that_may_run_twice(text: str, is_repeatable: bool) -> None:
    assert repeatable(text) == is_repeatable


def test_only_a_process_after_the_first_one_goes_on(session: Session, tmp_path: Path) -> None:
    path = tmp_path / "journal"
    assert not Journal(path).goes_on
    run(session, path, 0, True)
    assert Journal(path).goes_on
