"""Rows of a training, on their way from shards to files and back."""
