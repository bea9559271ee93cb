"""Train large sparse models with SQL."""
