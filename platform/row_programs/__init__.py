"""Row programs: expressions of one row of Spark SQL as functions of Python, with the embedded engine's values bit for bit."""
