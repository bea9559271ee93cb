"""The input of trainings and scoring: Arrow columns become slots, splits become batches."""
