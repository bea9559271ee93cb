"""Observations that a version keeps: profiles of the rows that it learned, how far others are from them, and calibrators."""
