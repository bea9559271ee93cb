"""Bridges to networks that users write: in Flax NNX, in Equinox, or as plain functions of JAX."""
