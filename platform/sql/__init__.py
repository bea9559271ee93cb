"""The SQL surface: our statements, ML.* table functions, scripts."""
