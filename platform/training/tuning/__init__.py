"""Tuning: options of an algorithm that are tried and judged."""
