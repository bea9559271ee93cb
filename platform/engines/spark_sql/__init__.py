"""Spark SQL as text: dialect, statements, names and types, the same on every engine."""
