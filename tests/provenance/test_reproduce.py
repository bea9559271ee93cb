"""SHOW PROVENANCE and REPRODUCE: a version comes out again as it was, and what has changed is named."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import xpsql
from tests.cases import costly, costly_after_first, lengthy, slow
from tests.notes import Notes
from tests.training.log import log, write
from xpsql.platform.errors import ModelError, StatementError, TrainingError
from xpsql.platform.progress import SilentReporter

TRAINED = "TRAIN MODEL m USING {} LABEL label TIME ts {} AS SELECT * FROM parquet.`{}`"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write(log(4000), tmp_path / "log.parquet")


@pytest.fixture
def embedded(tmp_path: Path) -> Iterator[xpsql.Session]:
    with xpsql.connect(tmp_path / "warehouse", reporter=Notes()) as session:
        yield session


def result(session: xpsql.Session, text: str) -> tuple[list[dict[str, Any]], str]:
    rows = session.sql(text).arrow().to_pylist()
    assert all(row["equal"] for row in rows)
    assert not list((session.models.warehouse / ".scratch").iterdir())
    return rows, rows[-1]["found"]


@costly_after_first
@pytest.mark.parametrize(
    ("using", "clauses"),
    [
        ("xftrl", "CALIBRATE (by = (user))"),
        ("xnn", "WITH (workers = 2, sync = 'bsp')"),
        ("fm", "VALIDATE ON 0.2 WITH (passes = 2)"),
        ("owlqn", ""),
    ],
)
def test_a_version_comes_out_again_to_the_bit(embedded: xpsql.Session, path: Path, using: str, clauses: str) -> None:
    embedded.sql(TRAINED.format(using, clauses, path))
    rows, verdict = result(embedded, "REPRODUCE MODEL m VERSION 1")
    assert verdict == "equal to the bit"
    assert {row["kind"] for row in rows} == {"source", "environment", "file", "result"}
    assert [version.number for version in embedded.models.versions("m")] == [1]


def test_a_version_that_goes_on_comes_out_again_from_its_parent(embedded: xpsql.Session, path: Path) -> None:
    embedded.sql(TRAINED.format("xftrl", "", path))
    columns = "label, ts, user, item, price, tags, scores, vector"
    embedded.sql(f"CONTINUE MODEL m WITH (once = 'monday') AS SELECT {columns} FROM parquet.`{path}`")
    assert result(embedded, "REPRODUCE MODEL m VERSION 2")[1] == "equal to the bit"
    embedded.models.drop("m", 1)
    with pytest.raises(ModelError, match="continues version 1, which no longer exists"):
        embedded.sql("REPRODUCE MODEL m VERSION 2")


@lengthy
def test_from_the_beginning_ancestors_are_made_again_too(embedded: xpsql.Session, path: Path, tmp_path: Path) -> None:
    later = write(log(2000), tmp_path / "later.parquet")
    embedded.sql(TRAINED.format("xnn", "CALIBRATE", path))
    for _ in range(2):
        embedded.sql(f"CONTINUE MODEL m AS SELECT * FROM parquet.`{later}`")
    embedded.models.drop("m", 2)
    embedded.sql("ALTER MODEL m PROMOTE VERSION 1")
    for _ in range(2):  # versions 4, from 1, and 5, from 4: numbers with gaps
        embedded.sql(f"CONTINUE MODEL m AS SELECT * FROM parquet.`{later}`")
        embedded.sql("ALTER MODEL m PROMOTE VERSION 4")
    rows, verdict = result(embedded, "REPRODUCE MODEL m VERSION 5 FROM THE BEGINNING AS again")
    assert verdict == "equal to the bit"
    parents = [(row["name"], row["found"]) for row in rows if row["kind"] == "parent"]
    assert parents == [("m v1", "equal to the bit"), ("m v4", "equal to the bit")]
    assert len({row["name"] for row in rows if row["kind"] == "source"}) == 3
    assert embedded.models.version("again").number == 1


@costly
def test_from_the_beginning_names_the_ancestor_that_comes_out_otherwise(embedded: xpsql.Session, path: Path) -> None:
    embedded.sql(TRAINED.format("xftrl", "", path))
    embedded.sql(f"CONTINUE MODEL m AS SELECT * FROM parquet.`{path}` LIMIT 2000")
    manifest = embedded.models.version("m", 1).folder / "manifest.json"
    said = json.loads(manifest.read_text())
    said["algorithm"]["options"]["alpha"] = 0.3
    manifest.write_text(json.dumps(said))
    assert result(embedded, "REPRODUCE MODEL m VERSION 2")[1] == "equal to the bit"
    with pytest.raises(TrainingError, match=r"made again as it was: differs: .* rows, .*, of its ancestor v1"):
        embedded.sql("REPRODUCE MODEL m VERSION 2 FROM THE BEGINNING")
    embedded.models.drop("m", 1)
    with pytest.raises(ModelError, match="continues version 1, which no longer exists"):
        embedded.sql("REPRODUCE MODEL m VERSION 2 FROM THE BEGINNING")


@costly
def test_spark_makes_a_version_again(path: Path, tmp_path: Path, spark: SparkSession) -> None:
    with xpsql.connect(tmp_path / "spark", spark, SilentReporter()) as session:
        session.sql(TRAINED.format("xftrl", "WITH (workers = 1, shards = 2)", path))
        assert result(session, "REPRODUCE MODEL m")[1] == "equal to the bit"


@slow
def test_spark_makes_a_version_again_whose_query_ran_once(path: Path, tmp_path: Path, spark: SparkSession) -> None:
    query = f"SELECT label, user, count(*) AS n FROM parquet.`{path}` GROUP BY label, user ORDER BY user, label"
    with xpsql.connect(tmp_path / "spark", spark, SilentReporter()) as session:
        session.sql(f"TRAIN MODEL m USING xftrl LABEL label WITH (workers = 1, shards = 1) AS {query}")
        rows, verdict = result(session, "REPRODUCE MODEL m")
        assert verdict == "equal to the bit"
        assert [row["name"] for row in rows if row["kind"] in ("source", "rows")]


@costly
def test_workers_that_run_freely_are_held_to_the_spread_of_three_runs(embedded: xpsql.Session, path: Path) -> None:
    embedded.sql(TRAINED.format("xftrl", "WITH (workers = 2)", path))
    rows, verdict = result(embedded, "REPRODUCE MODEL m")
    assert verdict == "within the spread of 3 runs"
    assert {"auc", "logloss"} <= {row["name"] for row in rows if row["kind"] == "metric"}


def test_a_source_that_changed_is_named_before_work_starts_and_in_the_error(embedded: xpsql.Session, path: Path) -> None:
    embedded.sql(TRAINED.format("xftrl", "", path))
    table = pq.read_table(path)
    labels = table["label"].to_pylist()
    labels[7] = 1 - labels[7]
    write(table.set_column(0, "label", pa.array(labels, pa.int32())), path)
    with pytest.raises(TrainingError, match=r"differs: [\d,]+ of [\d,]+ rows, first key -?\d+, slot \w+") as raised:
        embedded.sql("REPRODUCE MODEL m")
    assert any("The source parquet." in note and "has changed" in note for note in raised.value.__notes__)


def test_a_query_that_asks_the_clock_or_chance_says_so(embedded: xpsql.Session, path: Path) -> None:
    query = f"SELECT * FROM parquet.`{path}` WHERE rand() < 0.5"
    embedded.sql(f"TRAIN MODEL m USING xftrl LABEL label TIME ts AS {query}")
    with pytest.raises(TrainingError, match="cannot be made again as it was") as raised:
        embedded.sql("REPRODUCE MODEL m")
    assert any("The rows rows of the query has changed" in note for note in raised.value.__notes__)


def test_what_was_made_again_is_kept_as_a_model(embedded: xpsql.Session, path: Path) -> None:
    embedded.sql(TRAINED.format("xftrl", "", path))
    assert result(embedded, "REPRODUCE MODEL m AS again")[1] == "equal to the bit"
    for name in ("m", "again"):
        embedded.sql(
            f"CREATE TABLE {name}_said AS SELECT predicted_label AS p FROM ML.PREDICT(MODEL {name}, TABLE parquet.`{path}`)"
        )
    assert embedded.sql("SELECT * FROM m_said").arrow() == embedded.sql("SELECT * FROM again_said").arrow()
    with pytest.raises(ModelError, match=r"There is a model again, and REPRODUCE \.\.\. AS makes a new one"):
        embedded.sql("REPRODUCE MODEL m AS again")


def test_rows_of_a_query_that_runs_once_are_the_same_rows_again(embedded: xpsql.Session, path: Path) -> None:
    query = f"SELECT label, user, count(*) AS n FROM parquet.`{path}` GROUP BY label, user ORDER BY user, label"
    embedded.sql(f"TRAIN MODEL m USING xftrl LABEL label AS {query}")
    rows, verdict = result(embedded, "REPRODUCE MODEL m")
    assert verdict == "equal to the bit"
    assert [(row["name"], len(row["expected"])) for row in rows if row["kind"] == "rows"] == [("rows of the query", 32)]


@costly
@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("settings", "seed"), 8),
        pytest.param(("sizes", "batch_size"), 48, marks=slow),
        (("algorithm", "options", "alpha"), 0.3),
        pytest.param(("algorithm", "options", "l1"), 5.0, marks=slow),
        (("clauses", "IGNORE"), ["price"]),
        (("query",), "SELECT * FROM parquet.`{}` LIMIT 3999"),
    ],
)
def test_whatever_else_a_manifest_says_of_a_training_comes_out_otherwise(
    embedded: xpsql.Session, path: Path, place: tuple[str, ...], value: Any
) -> None:
    using = "xnn (hidden = (4))" if "seed" in place else "xftrl"
    embedded.sql(TRAINED.format(using, "", path))
    file = embedded.models.find("m", 1).folder / "manifest.json"
    manifest = json.loads(file.read_text())
    at = manifest
    for name in place[:-1]:
        at = at[name]
    at[place[-1]] = value.format(path) if isinstance(value, str) else value
    file.write_text(json.dumps(manifest))
    with pytest.raises((TrainingError, StatementError)):
        embedded.sql("REPRODUCE MODEL m")


@costly
def test_what_no_training_made_is_refused(embedded: xpsql.Session, path: Path) -> None:
    embedded.sql(TRAINED.format("xftrl", "", path))
    embedded.sql("SHRINK MODEL m WHERE count < 2")
    with pytest.raises(ModelError, match="not made by a training"):
        embedded.sql("REPRODUCE MODEL m")


def facts(session: xpsql.Session, text: str) -> dict[tuple[str, str], dict[str, Any]]:
    return {(row["kind"], row["name"]): row for row in session.sql(text).arrow().to_pylist()}


def test_provenance_names_what_a_version_was_made_from(embedded: xpsql.Session, path: Path) -> None:
    embedded.sql(TRAINED.format("xftrl (alpha = 0.2)", "", path))
    embedded.sql(f"CONTINUE MODEL m AS SELECT * FROM parquet.`{path}`")
    found = facts(embedded, "SHOW PROVENANCE OF MODEL m VERSION 2")
    before = facts(embedded, "SHOW PROVENANCE OF MODEL m VERSION 1")
    assert found["parent", "m v1"]["digest"] == before["version", "m v1"]["digest"]
    assert len(found["source", f"parquet.`{path}`"]["digest"]) == 32
    assert before["option", "USING xftrl alpha"]["value"] == "0.2 (user)"
    assert found["option", "WITH seed"]["value"] == "7 (default)"
    assert len(found["build", "native"]["digest"]) == 16
    assert found["package", "jax"]["value"]
    assert found["file", "rows/weights/part-00000.parquet"]["digest"]
    assert found["statement", "statement"]["value"].startswith("CONTINUE MODEL m")
    embedded.models.drop("m", 1)
    assert facts(embedded, "SHOW PROVENANCE OF MODEL m")["parent", "m v1"]["value"] == "dropped"


def test_a_warehouse_that_was_copied_gives_the_same(embedded: xpsql.Session, path: Path, tmp_path: Path) -> None:
    embedded.sql(TRAINED.format("xftrl", "", path))
    shutil.copytree(tmp_path / "warehouse", tmp_path / "copy")
    with xpsql.connect(tmp_path / "copy", reporter=SilentReporter()) as session:
        assert result(session, "REPRODUCE MODEL m")[1] == "equal to the bit"


def test_a_version_whose_table_lost_rows_names_that_table(embedded: xpsql.Session, path: Path) -> None:
    embedded.sql(f"CREATE TABLE log AS SELECT * FROM parquet.`{path}`")
    embedded.sql("TRAIN MODEL m USING xftrl LABEL label TIME ts AS SELECT * FROM log")
    embedded.sql("DELETE FROM log WHERE user = 'u1'")
    with pytest.raises(TrainingError, match="Version 1 of m cannot be made again as it was") as caught:
        embedded.sql("REPRODUCE MODEL m VERSION 1")
    assert any("The source log has changed: " in note for note in caught.value.__notes__)
