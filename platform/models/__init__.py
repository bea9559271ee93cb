"""A model as tables and files: weights, related items, exports, deltas, smaller versions."""
