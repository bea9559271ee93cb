"""Decisions: what a version would have earned on requests that another policy decided, and A/B tests."""
