"""Blocks: what a kind of slot is in memory, from a chunk of the input to the inputs of an algorithm; a new place is a file."""
