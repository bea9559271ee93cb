"""Models of items and users: related items, vectors, recommendation."""
