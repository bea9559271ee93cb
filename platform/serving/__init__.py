"""The scoring service: versions of models behind HTTP, and what it logs replayed."""
