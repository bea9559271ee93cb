"""Chains of delta versions: changed rows on top of a version with all rows."""
