"""What tests know of the version of Spark that runs them."""

import pyspark
import pytest

VERSION = tuple(int(part) for part in pyspark.__version__.split(".")[:2])
SPARK_3 = VERSION < (4, 0)
LIMITS_GROUPS = VERSION >= (4, 1)  # of rows in Parquet files
needs_spark_4 = pytest.mark.skipif(SPARK_3, reason="Spark 3 does it in another way, or tells less")
needs_spark_4_1 = pytest.mark.skipif(VERSION < (4, 1), reason="Spark tells less before 4.1")
