"""Messages of Spark in our words."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor

import pytest
from pyspark.errors import AnalysisException, error_classes
from pyspark.sql import SparkSession

from tests.sparks import needs_spark_4
from xpsql.platform.engines.spark.failures import LOGGERS, bare, is_loss, plain, root_cause, unlogged

TRACEBACK = """An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "worker.py", line 1, in f
    {line}
{raised}
"""


@pytest.mark.parametrize("written", ["3.{}", "(3, {})"])
def test_another_python_on_executors_is_reported_with_both_versions(written: str) -> None:
    message = " ".join(error_classes.ERROR_CLASSES_MAP["PYTHON_VERSION_MISMATCH"]["message"])
    reported = plain(message.replace("<worker_version>", written.format(9)).replace("<driver_version>", written.format(11)))
    assert reported.startswith("The executors run Python 3.9, the driver 3.11; both need the same minor version.")


@pytest.mark.parametrize(
    ("raised", "reported"),
    [
        ("ValueError: too large", "a Python function raised ValueError: too large"),
        ("my.Failure", "a Python function raised my.Failure"),
        ("xpsql.platform.errors.DataError: row 7 has no label", "row 7 has no label"),
        ("ModuleNotFoundError: No module named 'xpsql'", "the executors have no Python module xpsql. Set PYSPARK_PYTHON, "),
    ],
)
def test_what_python_raised_is_reported_without_its_traceback(raised: str, reported: str) -> None:
    assert plain(TRACEBACK.format(line="g()", raised=raised)).startswith(reported)


def test_the_innermost_cause_of_java_is_reported() -> None:
    head = "An error occurred while calling o1.x.\n: a.B: outer\n\tat c.d\n"
    assert plain(root_cause(f"{head}Caused by: e.F: middle\n\tat g\nCaused by: h.I: disk full\n")) == "disk full."
    assert plain("An error occurred while calling o1.x.\n: java.io.IOException: no space\n\tat c.d") == "no space."
    assert plain("Lost task 0.0: exited with code 137\nDriver stacktrace:\n\tat a.b") == "Lost task 0.0: exited with code 137."


def test_the_file_that_could_not_be_read_is_reported() -> None:
    head = "An error occurred while calling o1.x.\n: org.apache.spark.SparkException: "
    cause = "\tat a.b\nCaused by: c.D: column: [ad], physicalType: INT64, logicalType: int\n"
    path = "file:///logs/day=1/my part-0.parquet"
    reported = f"{path}: column: [ad], physicalType: INT64, logicalType: int."
    spark_4 = f"[FAILED_READ_FILE.X] Encountered error while reading file {path}. Expected int. SQLSTATE: KD001\n"
    spark_3 = f"Parquet column cannot be converted in file {path}. Column: [ad], Expected: int, Found: INT64.\n"
    assert plain(root_cause(f"{head}{spark_4}{cause}")) == reported
    assert plain(root_cause(f"{head}{spark_3}{cause}")) == reported
    named = "\tat a.b\nCaused by: c.D: file:/logs/day=1/my part-0.parquet is not a Parquet file.\n"
    assert plain(root_cause(f"{head}{spark_4}{named}")) == "file:/logs/day=1/my part-0.parquet is not a Parquet file."


def test_names_lose_their_quotes_and_the_default_database() -> None:
    assert bare("`spark_catalog`.`default`.`t`") == "t"
    assert bare("`t`.`a`") == "t.a"


def test_queries_of_the_program_itself_still_fail_with_errors_of_spark(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in LOGGERS:
        monkeypatch.delitem(logging.Logger.manager.loggerDict, name, raising=False)
    with unlogged():
        pass
    with pytest.raises(AnalysisException, match="nothing"):
        spark.sql("SELECT nothing FROM range(1)")


@needs_spark_4
def test_only_what_this_thread_raises_is_not_logged() -> None:
    from pyspark.logger import PySparkLogger

    logger = PySparkLogger.getLogger(LOGGERS[0])

    def logged() -> bool:
        return bool(logger.filter(logging.makeLogRecord({})))

    with unlogged(), ThreadPoolExecutor(1) as other:
        assert other.submit(logged).result()
        assert not logged()
    assert logged()


TRACED = 'org.apache.spark.api.python.PythonException: Traceback (most recent call last):\n  File "a.py", line 1\n'


@pytest.mark.parametrize(
    ("message", "lost"),
    [
        ("Job aborted: Task 0 failed 1 times: java.net.SocketException: Connection reset\n\tat java.base/sun.nio", True),
        ("Task 0 failed 4 times: org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)", True),
        ("ExecutorLostFailure (executor 1 exited caused by one of the running tasks)", True),
        (f"{TRACED}xpsql.platform.errors.LostError: Cannot connect to the coordinator of m v1.\n", True),
        (f"{TRACED}xpsql.platform.errors.TrainingError: The executors have xpsql 1.\n", False),
        (f"{TRACED}OSError: Connection reset\n", False),
        ('java.io.IOException: Cannot run program "python3": No such file or directory', False),
    ],
)
def test_tasks_that_are_lost_are_distinguished_from_those_whose_code_failed(message: str, lost: bool) -> None:
    assert is_loss(message) is lost
