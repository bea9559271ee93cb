"""Engines: where queries run and tasks are placed."""
