"""Options of Java for tests: Spark there ends before the slow compiler's code or a collector with threads would pay.

To verify the classes that Spark loads takes a quarter of what it takes to start, and to parse them nearly half: an archive of
them (class data sharing) is made once, and kept in the user's cache folder. `python tests/java.py` makes it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

STARTED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"


def archive() -> Path | None:
    """Return where the archive of this Java and this Spark is, made or not; None where there can be none."""
    java = shutil.which("java", path=f"{os.environ['JAVA_HOME']}/bin" if "JAVA_HOME" in os.environ else None)
    spark = find_spec("pyspark")
    if java is None or spark is None:
        return None
    made = f"{Path(java).resolve()} {spark.origin} {STARTED}"
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    found = root / "xpsql" / f"spark-{hashlib.sha256(made.encode()).hexdigest()[:12]}.jsa"
    return None if " " in str(found) else found  # Spark takes options apart at spaces


ARCHIVE = archive()
OPTIONS = (
    STARTED if ARCHIVE is None else f"{STARTED} -XX:SharedArchiveFile={ARCHIVE} -Xlog:disable"
)  # says nothing if it is old
EXECUTORS = {"spark.executor.extraJavaOptions": OPTIONS}
"""A setting of applications with executors of their own."""
VARIABLES = ("SPARK_SUBMIT_OPTS", "SPARK_DAEMON_JAVA_OPTS")
"""Of the environment, which drivers, masters and workers read."""


def begin_archive() -> None:
    """Make the archive where there is none, in a process beside; those that start meanwhile do without."""
    if ARCHIVE is not None and not ARCHIVE.exists():
        os.spawnv(os.P_NOWAIT, sys.executable, [sys.executable, "-P", __file__])


def make_archive(place: Path) -> None:
    """Start Spark, let it load what most tests do, and keep its classes."""
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent) as folder:
        made = Path(folder) / place.name
        os.environ |= {"SPARK_SUBMIT_OPTS": f"{STARTED} -XX:ArchiveClassesAtExit={made} -Xlog:disable"}
        os.environ |= {"PYSPARK_PYTHON": sys.executable}
        from pyspark import SparkContext
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.master("local[2]").config("spark.log.level", "OFF")
        settings = {"spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1", "spark.sql.shuffle.partitions": "2"}
        spark = builder.config(map={**settings, "spark.local.dir": folder, "spark.driver.memory": "1g"}).getOrCreate()
        rows = spark.sql("SELECT id, CAST(id % 7 AS STRING) AS user, array(id) AS items FROM range(100)")
        rows.write.parquet(f"{folder}/rows")
        spark.read.parquet(f"{folder}/rows").createOrReplaceTempView("rows")
        joined = spark.sql(
            "SELECT user, count(*) AS n, max(l.id) FROM rows l JOIN rows r USING (user) GROUP BY user ORDER BY n"
        )
        joined.mapInArrow(lambda batches: batches, joined.schema).toPandas()
        spark.stop()
        gateway = SparkContext._gateway
        assert gateway is not None
        gateway.shutdown()
        gateway.proc.stdin.close()  # Java ends by that, and writes
        gateway.proc.wait(120)
        if made.exists():
            made.replace(place)


if __name__ == "__main__" and ARCHIVE is not None:
    silent = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(silent, stream)
    make_archive(ARCHIVE)
