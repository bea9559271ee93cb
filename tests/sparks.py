"""What tests know of the version of Spark that runs them."""

import pyspark
import pytest

SPARK_3 = pyspark.__version__.startswith("3.")
needs_spark_4 = pytest.mark.skipif(SPARK_3, reason="Spark 3 does it in another way, or tells less")
