"""Messages of Spark in our words."""

from __future__ import annotations

import pytest
from pyspark.errors import error_classes

from xpsql.platform.engines.spark_failures import bare, plain, root_cause

TRACEBACK = """An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "worker.py", line 1, in f
    {line}
{raised}
"""


@pytest.mark.parametrize("written", ["3.{}", "(3, {})"])
def test_another_python_on_executors_is_told_with_both_versions(written: str) -> None:
    message = " ".join(error_classes.ERROR_CLASSES_MAP["PYTHON_VERSION_MISMATCH"]["message"])
    told = plain(message.replace("<worker_version>", written.format(9)).replace("<driver_version>", written.format(11)))
    assert told.startswith("The executors run Python 3.9, the driver 3.11; both need the same minor version.")


@pytest.mark.parametrize(
    ("raised", "told"),
    [
        ("ValueError: too large", "a Python function raised ValueError: too large"),
        ("my.Failure", "a Python function raised my.Failure"),
        ("xpsql.platform.errors.DataError: row 7 has no label", "row 7 has no label"),
        ("ModuleNotFoundError: No module named 'xpsql'", "the executors have no Python module xpsql. Install it there, or"),
    ],
)
def test_what_python_raised_is_told_without_its_traceback(raised: str, told: str) -> None:
    assert plain(TRACEBACK.format(line="g()", raised=raised)).startswith(told)


def test_the_innermost_cause_of_java_is_told() -> None:
    head = "An error occurred while calling o1.x.\n: a.B: outer\n\tat c.d\n"
    assert plain(root_cause(f"{head}Caused by: e.F: middle\n\tat g\nCaused by: h.I: disk full\n")) == "disk full."
    assert plain("An error occurred while calling o1.x.\n: java.io.IOException: no space\n\tat c.d") == "no space."


def test_names_lose_their_quotes_and_the_default_database() -> None:
    assert bare("`spark_catalog`.`default`.`t`") == "t"
    assert bare("`t`.`a`") == "t.a"
