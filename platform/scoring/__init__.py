"""Predictions and evaluations by a version of a model."""
