"""The embedded engine: Spark SQL on DuckDB, tables of the warehouse, files."""
