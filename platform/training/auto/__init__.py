"""USING auto: the search for a model among statements, and the crosses that a model lacks."""
