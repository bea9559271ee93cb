"""Preparation of trainings: one list of stages that TRAIN, CONTINUE, EXPLAIN, RESUME and resident trainings go through."""
