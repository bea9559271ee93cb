"""Trees of items beside a model."""
