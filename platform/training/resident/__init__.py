"""A training that stays: it learns what comes in a stream, and makes versions while it learns."""
