"""Spark as an engine: queries, tables, tasks."""
