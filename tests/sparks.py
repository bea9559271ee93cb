"""What tests know of the version of Spark that runs them."""

import os

import pyspark
import pytest

VERSION = tuple(int(part) for part in pyspark.__version__.split(".")[:2])
REMOTE = os.environ.get("XPSQL_TEST_REMOTE", "")
"""`local`, or an address: tests that get their Spark from conftest.py, and no others, run in sessions of a server of Spark
Connect."""
SPARK_3 = VERSION < (4, 0)
LIMITS_GROUPS = VERSION >= (4, 1)  # of rows in Parquet files
needs_context = pytest.mark.skipif(bool(REMOTE), reason="the test is of a SparkContext, which a session of Connect lacks")
needs_spark_4 = pytest.mark.skipif(SPARK_3, reason="Spark 3 does it in another way, or tells less")
needs_spark_4_1 = pytest.mark.skipif(VERSION < (4, 1), reason="Spark tells less before 4.1")
