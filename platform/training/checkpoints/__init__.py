"""Checkpoints of a training, and recovery from them."""
