"""Write tests/parity/files.json: what a live Spark answers to every case of files.

Run from the root of the checkout, with Java: python -m tests.parity.generate_files. The result is the same on every run.
"""

from __future__ import annotations

import json
import logging
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tests.parity.cases import CASES
from tests.parity.files import ANSWERS, Case, read, write
from tests.parity.generate import local_spark
from tests.parity.table import canonical

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def answer(spark: SparkSession, case: Case) -> dict[str, object]:
    """Return Spark's names, types and rows of a case, or the class of its error."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    with tempfile.TemporaryDirectory() as folder:
        write(case, Path(folder))
        try:
            read(case, Path(folder), spark.sql)
            frame = spark.sql(case.query)
            types = [field.dataType.simpleString() for field in frame.schema.fields]
            return {"names": frame.columns, "types": types, "rows": canonical(frame.toArrow())}
        except PySparkException as error:
            return {"error": error.getCondition() or type(error).__name__}
        except Py4JJavaError as error:
            return {"error": error.java_exception.getClass().getSimpleName()}


def main() -> None:
    logging.disable()  # errors are answers here
    spark = local_spark()
    spark.sparkContext.setLogLevel("OFF")
    write_answers(spark)
    spark.stop()


def write_answers(spark: SparkSession) -> None:
    """Write what Spark answers to every case."""
    answers = {name: answer(spark, case) for name, case in CASES.items()}
    lines = [
        f"{json.dumps(name, ensure_ascii=False)}: {json.dumps(found, ensure_ascii=False)}" for name, found in answers.items()
    ]
    ANSWERS.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
