"""Decisions: policies that choose among candidates, what one would have earned on the log of another, and A/B tests."""
