"""Rows of a table by key: the protocol, and its implementation in plain Python."""
