"""Policies that choose among candidates, and what one would have earned on the log of another, with intervals."""
