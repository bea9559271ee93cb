"""Augments: rows of items not taken, pairs of items, features drawn at random."""
