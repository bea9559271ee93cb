"""Features of requests that are computed from their columns: by an engine on tables, or by row programs on rows."""
