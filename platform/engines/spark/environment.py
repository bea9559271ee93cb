"""Environment variables of this process about Spark."""

SUBMITTED = "PYSPARK_GATEWAY_PORT"  # spark-submit has started the JVM, and passes its address to the program
