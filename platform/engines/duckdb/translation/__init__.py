"""Spark SQL to DuckDB's SQL, with Spark's values and types."""
