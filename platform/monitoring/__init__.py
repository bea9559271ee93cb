"""Monitoring: rows of a table or a log beside those that a version learned, and alarms."""
