"""Reading files as Spark does: CSV, JSON, Parquet."""
