from __future__ import annotations

import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from pathlib import Path
from typing import Any

import duckdb
import pyspark
import pytest
from pyspark.sql import SparkSession

from tests.cases import slow
from tests.plain import PlainEngine, plain_session
from xpsql import dbapi
from xpsql.platform.engines.spark.applications import application_of
from xpsql.platform.engines.spark.start import require_java, require_pyspark, session_of
from xpsql.platform.errors import NotAvailableError, StatementError, XpsqlError
from xpsql.platform.session import connect, warehouse_path


def test_several_statements_give_the_result_of_the_last(tmp_path: Path) -> None:
    with plain_session(tmp_path) as session:
        assert session.sql("SELECT 1 AS x; SELECT ${n} AS y", n=2).arrow().to_pylist() == [{"y": 2}]


def test_a_variable_that_is_none_is_null(tmp_path: Path) -> None:
    with plain_session(tmp_path) as session:
        assert session.sql("SELECT ${x} IS NULL AS y", x=None).arrow().to_pylist() == [{"y": True}]


def test_a_variable_is_put_in_as_it_is_written_without_quotes(tmp_path: Path) -> None:
    query = "SELECT '${day}' AS quoted, ${day} AS bare, '${name}' AS name, ${yes} AS yes"
    with plain_session(tmp_path) as session:
        answer = session.sql(query, day=date(2024, 1, 2), name="de", yes=True).arrow().to_pylist()
    assert answer == [{"quoted": "2024-01-02", "bare": 2021, "name": "de", "yes": True}]


def test_a_script_without_statements_has_no_result(tmp_path: Path) -> None:
    with plain_session(tmp_path) as session:
        result = session.sql(" ; -- nothing")
    assert result.table is None
    assert result.arrow().num_columns == 0
    assert repr(result) == result._repr_html_() == "OK"


@pytest.mark.parametrize("text", [None, b"SELECT 1", 1])
def test_what_is_no_text_is_refused(tmp_path: Path, text: Any) -> None:
    with plain_session(tmp_path) as session:
        with pytest.raises(StatementError, match="Expected a text of statements, got"):
            session.sql(text)
        with pytest.raises(StatementError, match="Expected the name of a model, got"):
            session.model(text)


def test_nothing_runs_when_a_later_statement_cannot_be_read(tmp_path: Path) -> None:
    with plain_session(tmp_path) as session:
        with pytest.raises(StatementError, match="Expected MODEL"):
            session.sql("SELECT 1; TRAIN m")
        assert isinstance(session.engine, PlainEngine)
        assert session.engine.executed == []


def test_a_name_that_the_system_does_not_take_is_told_by_each_door(tmp_path: Path) -> None:
    for path in (tmp_path / ("x" * 300), "x" * 5000):
        with pytest.raises(StatementError, match=r"File name too long\. Choose a shorter name\."):
            connect(path)
        with pytest.raises(dbapi.ProgrammingError, match=r"File name too long\. Choose a shorter name\."):
            dbapi.connect(path)


def test_an_error_of_a_library_that_nobody_expected_is_ours_and_keeps_its_cause(tmp_path: Path) -> None:
    with plain_session(tmp_path) as session:
        with pytest.raises(XpsqlError, match=r"^duckdb failed: ConversionException: .* report the statement") as raised:
            session.sql("SELECT CAST('x' AS INTEGER)")
        assert isinstance(raised.value.__cause__, duckdb.ConversionException)
        assert raised.value.position is not None


def test_a_closed_session_runs_nothing(tmp_path: Path) -> None:
    session = plain_session(tmp_path)
    session.close()
    session.close()
    with pytest.raises(XpsqlError, match=r"This session is closed .* xpsql\.connect"):
        session.sql("SELECT 1")


def test_a_session_that_is_closed_between_two_statements_runs_no_more(tmp_path: Path) -> None:
    session = plain_session(tmp_path)
    results = session.run("SELECT 1; SELECT 2", {}, None)
    next(results)
    session.close()
    with pytest.raises(XpsqlError, match="This session is closed"):
        next(results)
    assert isinstance(session.engine, PlainEngine)
    assert session.engine.executed == ["SELECT 1"]


@pytest.mark.parametrize(
    "statement",
    [
        f"SELECT {'1+' * 5000}1",
        f"SELECT {'(' * 5000}1{')' * 5000}",
        f"TRAIN MODEL m USING xftrl (a = {'(' * 5000}1{')' * 5000}) AS SELECT 1",
    ],
)
def test_a_statement_that_nests_too_deeply_is_an_error_of_its_own(tmp_path: Path, statement: str) -> None:
    with connect(tmp_path) as session, pytest.raises(StatementError, match="nests too deeply") as raised:
        session.sql(f"SELECT 1;\n{statement}")
    assert raised.value.position is not None
    assert raised.value.position[:2] == (2, 1)
    assert len(str(raised.value)) < 1000


def test_results_come_one_by_one_before_the_next_statement_runs(tmp_path: Path) -> None:
    with plain_session(tmp_path) as session:
        results = session.run("SELECT 1; SELECT * FROM nowhere", {}, None)
        assert next(results).arrow().num_rows == 1
        with pytest.raises(StatementError) as raised:
            next(results)
    assert raised.value.position == (1, 25, "nowhere")


def test_a_result_is_shown_with_its_first_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with plain_session(tmp_path) as session:
        result = session.sql("SELECT range AS n FROM range(30)")
    result.show(2)
    assert capsys.readouterr().out == "n\n-\n0\n1\n... 28 more rows\n"
    assert repr(result).endswith("\n19\n... 10 more rows")
    assert result.to_pandas()["n"].sum() == 435
    with pytest.raises(StatementError, match="0 or more, got -1"):
        result.show(-1)


def test_an_unknown_engine_names_the_ones_there_are() -> None:
    with pytest.raises(StatementError, match=r"no engine 'dukdb'\. Did you mean duckdb\? Valid: duckdb, spark\."):
        connect(engine="dukdb")


def test_what_is_no_engine_is_named() -> None:
    with pytest.raises(NotAvailableError, match=r"a Spark session of this process, got builtins\.int\."):
        connect(engine=5)  # type: ignore[arg-type]


def test_a_spark_session_is_an_engine_and_outlives_ours(spark: SparkSession, tmp_path: Path) -> None:
    spark.range(3).createOrReplaceTempView("three")
    with connect(tmp_path, spark) as session:
        assert session.sql("SELECT sum(id) AS n FROM three").arrow().to_pylist() == [{"n": 3}]
    assert spark.table("three").count() == 3


def test_the_engine_spark_uses_the_spark_that_runs(spark: SparkSession, tmp_path: Path) -> None:
    with connect(tmp_path, master="local[6]") as session:
        assert session.engine.name == "spark"
    with pytest.raises(StatementError, match=r"runs in this process already, on local\[6\], not on local\[3\]"):
        connect(tmp_path, "spark", master="local[3]")
    with pytest.raises(StatementError, match=r"already, with spark\.driver\.memory = 1g, not 2g"):
        connect(tmp_path, "spark", conf={"spark.driver.memory": "2g"})


def test_a_session_in_another_thread_leaves_the_spark_that_runs(spark: SparkSession) -> None:
    with ThreadPoolExecutor(1) as pool:
        used, owned = pool.submit(session_of, None, {}).result()
    assert application_of(used).master == application_of(spark).master
    assert not owned


@slow
def test_a_session_leaves_a_context_that_runs_and_closes_after_it_has_stopped(tmp_path: Path) -> None:
    program = f"""
from pyspark import SparkConf, SparkContext
import xpsql

context = SparkContext(conf=SparkConf().setAll({{"spark.master": "local[1]", "spark.ui.enabled": "false"}}.items()))
xpsql.connect({str(tmp_path)!r}, "spark").close()
assert context.range(3).count() == 3
session = xpsql.connect({str(tmp_path)!r}, "spark")
session.sql("CREATE TABLE t AS SELECT 1 AS a")
context.stop()
session.close()
print("closed")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=240)
    assert done.stdout == "closed\n", done.stderr[-2000:]


@slow
def test_statements_whose_spark_ends_or_has_ended_say_so(tmp_path: Path) -> None:
    program = f"""
import threading
from pathlib import Path
from pyspark.sql import SparkSession
import xpsql
from xpsql.platform.progress import SilentReporter

spark = SparkSession.builder.master("local[3]").config("spark.ui.enabled", "false").getOrCreate()
stopping = threading.Thread(target=spark.stop)

class Stopping(SilentReporter):
    def update(self, examples, metrics):
        if not stopping.ident and list(Path({str(tmp_path)!r}).glob("models/m/v1/checkpoints/*/manifest.json")):
            stopping.start()

spark.range(10000).selectExpr("id % 2 AS label", "id % 100 AS user").createOrReplaceTempView("log")
session = xpsql.connect({str(tmp_path)!r}, spark, Stopping())
training = "TRAIN MODEL m USING xftrl WITH (passes = 2000, checkpoint_seconds = 0.1) AS SELECT * FROM log"
for statement in [training, "SELECT 1", "CREATE TABLE t AS SELECT 1 AS a", f"EXPLAIN {{training}}"]:
    try:
        session.sql(statement)
    except xpsql.XpsqlError as error:
        print("application of this session has ended" in str(error) or error)
    stopping.join(60)
print(session.sql("SHOW MODELS").arrow()["status"].to_pylist())
session.close()
try:
    xpsql.connect({str(tmp_path)!r}, spark)
except xpsql.XpsqlError as error:
    print("application of this session has ended" in str(error))
"""
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False, timeout=240
    )
    assert done.stdout == "True\n" * 4 + "['interrupted']\n" + "True\n", done.stderr[-2000:]


def test_a_session_of_spark_has_its_settings_already(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(StatementError, match="has its master already"):
        connect(tmp_path, spark, master="local[6]")


def test_the_embedded_engine_takes_no_settings_of_spark(tmp_path: Path) -> None:
    with pytest.raises(StatementError, match="has no options, got conf"):
        connect(tmp_path, "duckdb", conf={"spark.driver.memory": "2g"})


def test_spark_without_java_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(NotAvailableError, match="Install a JDK, version 17 or newer"):
        require_java()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(NotAvailableError, match="there is no bin/java"):
        require_java()


def test_spark_without_pyspark_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(NotAvailableError, match=re.escape("pip install 'xpsql[spark]'")):
        connect(engine="spark")


@pytest.mark.parametrize(
    ("version", "taken"), [("3.5.3", False), ("3.5.3+amzn.1", False), ("3.5.4+amzn.0", True), ("4.0.0rc1", True)]
)
def test_versions_of_vendors_are_distinguished_by_their_numbers(
    monkeypatch: pytest.MonkeyPatch, version: str, taken: bool
) -> None:
    monkeypatch.setattr(pyspark, "__version__", version)
    if taken:
        require_pyspark()
    else:
        with pytest.raises(NotAvailableError, match=re.escape(f"needs PySpark 3.5.4 or newer, got {version}.")):
            require_pyspark()


def test_a_warehouse_is_a_path_or_a_file_url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert warehouse_path("a/b") == tmp_path / "a" / "b"
    assert warehouse_path("file:///data/a%20b") == Path("/data/a b")
    assert warehouse_path(tmp_path) == tmp_path


def test_other_urls_are_refused() -> None:
    with pytest.raises(StatementError, match="path or a file:// URL, got 's3://bucket/w'"):
        warehouse_path("s3://bucket/w")


def test_a_file_is_no_warehouse(tmp_path: Path) -> None:
    (tmp_path / "w").touch()
    with pytest.raises(StatementError, match="is a file; it must be a folder"):
        warehouse_path(tmp_path / "w")
