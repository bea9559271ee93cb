"""One training: plan, recipe, checks, strategies, commit."""
