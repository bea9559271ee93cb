"""Operators on updates, one file each."""
