"""Learning from all examples at once by a solver."""
