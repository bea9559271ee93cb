"""Sequence models: events, encoders, trainings."""
