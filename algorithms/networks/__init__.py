"""Networks over a vector per slot."""
