"""Algorithms over graphs: vertex programs, and vectors of vertices."""
