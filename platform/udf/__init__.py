"""SQL functions registered in every engine."""
