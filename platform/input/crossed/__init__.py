"""CROSS: combinations of slots, from the terms of a statement to keys."""
