"""What the environment of this process says of Spark."""

SUBMITTED = "PYSPARK_GATEWAY_PORT"  # spark-submit has started the JVM, and tells the program where it is
