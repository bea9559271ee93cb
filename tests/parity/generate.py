"""Write the parity table, tests/parity/parity.json: what a live Spark answers to every line of expressions.sql.

Run from the root of the checkout, with Java: python -m tests.parity.generate. The result is the same on every run.
"""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING

from tests.parity.table import TABLE, called, canonical, expressions, query, sample

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def local_spark() -> SparkSession:
    """Start a Spark of one core whose session is in UTC."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[1]").appName("parity").config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.session.timeZone", "UTC").config("spark.sql.shuffle.partitions", "1")
    return builder.config("spark.driver.extraJavaOptions", "-Duser.timezone=UTC").getOrCreate()


def answer(spark: SparkSession, expression: str) -> dict[str, object]:
    """Return Spark's names, types and rows of one line, or the class of its error."""
    from pyspark.errors import PySparkException

    try:
        frame = spark.sql(query(expression))
        types = [field.dataType.simpleString() for field in frame.schema.fields]
        return {"names": frame.columns, "types": types, "rows": canonical(frame.toArrow())}
    except PySparkException as error:
        return {"error": error.getCondition() or type(error).__name__}


def main() -> None:
    logging.disable()  # errors are answers here
    spark = local_spark()
    spark.sparkContext.setLogLevel("OFF")
    spark.sql(sample()).createOrReplaceTempView("sample")
    rows = [{"expression": line, **answer(spark, line)} for line in expressions()]
    functions = sorted(set().union(*(called(row["expression"]) for row in rows if "error" not in row)))
    text = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    head = f'"spark": {json.dumps(spark.version)}, "functions": {json.dumps(functions)}'
    TABLE.write_text(f'{{{head}, "rows": [\n{text}\n]}}\n', encoding="utf-8")
    spark.stop()


if __name__ == "__main__":
    main()
