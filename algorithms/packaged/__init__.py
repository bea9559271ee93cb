"""Algorithms that another package learns."""
