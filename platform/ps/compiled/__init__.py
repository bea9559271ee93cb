"""Compiled programs of tables: what a pull and a push do with rows that were gathered."""
