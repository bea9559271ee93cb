"""Learning by another package, from all examples as a matrix."""
