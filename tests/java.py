"""Options of Java for tests: Spark there ends before the slow compiler's code or a collector with threads would pay.

To verify the classes that Spark loads takes a quarter of what it takes to start.
"""

OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
EXECUTORS = {"spark.executor.extraJavaOptions": OPTIONS}
"""A setting of applications with executors of their own."""
VARIABLES = ("SPARK_SUBMIT_OPTS", "SPARK_DAEMON_JAVA_OPTS")
"""Of the environment, which drivers, masters and workers read."""
