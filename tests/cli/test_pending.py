"""Statements on Spark that are refused before it starts: a java that only tells that it was called shows whether one was."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import xpsql
from tests.cases import costly, lengthy
from xpsql.platform.engines.spark.room import UNBOUNDED, ToldRoom
from xpsql.platform.errors import StatementError
from xpsql.platform.progress import SilentReporter

Run = Callable[..., str]
QUERY = "CREATE TABLE log AS SELECT 1 AS label, 'a' AS user;\n"
TRAINED = "TRAIN MODEL m USING xftrl{} AS SELECT * FROM log"
ROOM = "tasks at once, {}; Spark has room for {}.{} Give Spark more cores"
FEWER = " Lower workers or shards in WITH."
REFUSED = {
    TRAINED.format(" WITH (shards = 2, workers = 2)"): (ROOM.format("2 shards and 2 workers", 2, FEWER), "workers = 2"),
    "EXPLAIN " + TRAINED.format(" WITH (shards = 2)"): (ROOM.format("2 shards and 1 worker", 2, FEWER), "shards = 2"),
    TRAINED.format(" WITH (workers = 2)"): (ROOM.format("1 shard and 2 workers", 2, FEWER), "workers = 2"),
    **{
        TRAINED.replace("xftrl", at_once).format(" WITH (workers = 3)"): (
            ROOM.format("0 shards and 3 workers", 2, FEWER),
            "workers = 3",
        )
        for at_once in ("owlqn", "xgboost")
    },
    "TRAIN MODEL m USING xfrtl AS SELECT 1": ("There is no algorithm 'xfrtl'. Did you mean xftrl?", "xfrtl"),
    "TRAIN MODEL m USING xftrl (alfa = 1) AS SELECT 1": ("Algorithm xftrl has no option 'alfa'", "alfa"),
    TRAINED.format(" LABEL a LABEL b"): ("The clause LABEL is given twice.", "LABEL b"),
    TRAINED.format(" WITH (sync = 'bps')"): ("WITH sync does not take 'bps'", "sync"),
    "TRAIN MODEL m USIN xftrl AS SELECT 1": ("Expected a clause or AS query", "USIN"),
}


@pytest.fixture
def java(tmp_path: Path) -> Path:
    """What a java leaves where it was called; it starts nothing."""
    home, called = tmp_path / "java", tmp_path / "called"
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").write_text(f"#!/bin/sh\ntouch '{called}'\nexit 1\n")
    (home / "bin" / "java").chmod(0o755)
    return called


@pytest.fixture
def run(tmp_path: Path, java: Path) -> Run:
    """Runs scripts, all in one process, and returns what each says where it fails."""

    def runs(scripts: list[str], *options: str, command: str = "run") -> str:
        program = f"""
from click.testing import CliRunner
from xpsql.platform.cli.commands import main
for script in {scripts!r}:
    given = [script] if {command!r} == "sql" else ["-"]
    done = CliRunner().invoke(main, [{command!r}, *given, "--engine", "spark", *{options!r}], input=script)
    print(done.exit_code, " ".join(done.output.split()))
"""
        away = ("SPARK_HOME", "XPSQL_SUBMITTED")
        kept = {name: value for name, value in os.environ.items() if name not in away}
        environment = {**kept, "JAVA_HOME": str(tmp_path / "java"), "XPSQL_WAREHOUSE": str(tmp_path / "warehouse")}
        found = subprocess.run(
            [sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=240, check=True
        )
        return found.stdout

    return runs


@lengthy
def test_what_a_script_alone_shows_to_be_wrong_is_refused_at_its_place_before_spark_starts(run: Run, java: Path) -> None:
    for command in ("run", "sql"):
        said = run([QUERY + statement for statement in REFUSED], "--master", "local[2]", command=command).splitlines()
        for line, (statement, (words, place)) in zip(said, REFUSED.items(), strict=True):
            assert line.startswith("1 Error ")
            assert f"line 2, column {statement.index(place) + 1}): " in line
            assert words in line
    assert not java.exists()


@costly
def test_a_statement_that_spark_has_room_for_starts_it(run: Run, java: Path) -> None:
    assert "Spark does not start" in run([QUERY + TRAINED.format(" WITH (workers = 1)")], "--master", "local[2]")
    assert java.exists()


@costly
def test_statements_that_need_no_engine_start_none(run: Run, java: Path) -> None:
    assert run(["SHOW MODELS; DROP MODEL IF EXISTS m"], "--master", "local[2]").startswith("0 ")
    assert not java.exists()


@costly
def test_a_continued_training_is_refused_by_the_settings_of_its_parent_before_spark_starts(
    run: Run, java: Path, tmp_path: Path
) -> None:
    with xpsql.connect(tmp_path / "warehouse", reporter=SilentReporter()) as session:
        session.sql(QUERY + TRAINED.format(" WITH (shards = 2)"))
    continued = "CONTINUE MODEL m{} AS SELECT * FROM log"
    refused = [continued.format(""), "EXPLAIN " + continued.format(" WITH (workers = 2)")]
    said = run([*refused, "CONTINUE MODEL other AS SELECT * FROM log"], "--master", "local[2]").splitlines()
    assert ROOM.format("2 shards and 1 worker", 2, FEWER) in said[0]
    assert ROOM.format("2 shards and 2 workers", 2, FEWER) in said[1]
    assert "There is no model other" in said[2]
    assert not java.exists()


@pytest.mark.parametrize(
    ("master", "conf", "slots"),
    [
        ("local", {}, 1),
        ("local[5]", {}, 5),
        ("local[5, 3]", {"spark.task.cpus": "2"}, 2),
        ("local[5]", {"spark.task.cpus": "two"}, 5),
        ("spark://host:7077", {"spark.executor.instances": "2", "spark.executor.cores": "2"}, UNBOUNDED),
        ("yarn", {"spark.executor.instances": "2", "spark.executor.cores": "2"}, UNBOUNDED),
        ("yarn", {"spark.executor.instances": "2", "spark.dynamicAllocation.enabled": "false"}, UNBOUNDED),
        (
            "yarn",
            {
                "spark.executor.instances": "3",
                "spark.executor.cores": "5",
                "spark.task.cpus": "2",
                "spark.dynamicAllocation.enabled": "false",
            },
            6,
        ),
        (
            "k8s://host",
            {
                "spark.dynamicAllocation.maxExecutors": "3",
                "spark.executor.cores": "4",
                "spark.dynamicAllocation.enabled": "true",
            },
            12,
        ),
    ],
)
def test_settings_tell_how_many_tasks_spark_will_have_room_for_or_no_bound(
    master: str, conf: dict[str, str], slots: int
) -> None:
    assert ToldRoom(master, conf).slots(1, gang=False) == slots


def test_workers_that_start_together_are_refused_where_executors_come_and_go() -> None:
    with pytest.raises(StatementError, match=r"spark\.dynamicAllocation\.enabled is true"):
        ToldRoom("yarn", {"spark.dynamicAllocation.enabled": "true"}).slots(2, gang=True)
