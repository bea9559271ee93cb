"""The Python of docs/spark.md runs as it stands, and its commands are ours."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tests.cases import lengthy
from tests.docs.blocks import ROOT, blocks, options_of

SPARK = blocks("docs/spark.md")


@lengthy
def test_the_python_of_the_page_runs_on_a_session(spark: SparkSession, folder: Path) -> None:
    (python,) = [block.text for block in SPARK if block.language == "python"]
    clicks = spark.sql("SELECT id % 7 AS user, id % 3 AS ad, CAST(id % 2 = 0 AS INT) AS click FROM range(2000)")
    clicks.createOrReplaceTempView("clicks")
    names: dict[str, Any] = {"spark": spark}
    exec(compile(python, "spark.md", "exec"), names)
    assert names["scores"].num_rows == 2000


def test_the_commands_of_the_page_have_the_options_that_it_shows() -> None:
    lines = [shlex.split(line) for block in SPARK if block.language == "sh" for line in block.text.splitlines()]
    for line in (words for words in lines if words[0] == "xpsql"):
        commands = (line[1], "run") if line[1] == "submit" else (line[1],)
        options = set().union(*map(options_of, commands))
        assert {word for word in line if word.startswith("--")} <= options
    (entry,) = [words[3] for words in lines if words[0] == "spark-submit"]
    assert (ROOT / entry).exists()
