"""Runs of neighbouring rows that have values in common: found in a chunk, held once by a batch."""
