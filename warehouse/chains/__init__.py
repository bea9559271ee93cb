"""Versions that are read from others: of changed rows on top of all rows."""
