"""Numbers of slots that no column of a query is."""

from __future__ import annotations

INTERCEPT_NUMBER = 0xFFFF
"""The number of the intercept's slot."""
