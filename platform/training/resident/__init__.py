"""Resident (continuous) training: it learns what arrives in a stream, and publishes versions while it learns."""
