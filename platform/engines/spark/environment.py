"""Environment variables of this process about Spark."""

CONNECTED = "SPARK_REMOTE", "SPARK_LOCAL_REMOTE", "SPARK_CONNECT_MODE_ENABLED"
"""PySpark sets them where it opens a session of Spark Connect; processes that inherit them start no Spark."""
SUBMITTED = "PYSPARK_GATEWAY_PORT"  # spark-submit has started the JVM, and passes its address to the program
