"""Linear models and factorization machines."""
