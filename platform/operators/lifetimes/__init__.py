"""The lifecycle of rows: which may start, which have ended, and what a feature is worth."""
