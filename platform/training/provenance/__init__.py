"""Provenance: what a version was made from: its environment, what its queries read, and who chose each option."""
