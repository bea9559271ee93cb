"""Profiles of rows: what a version keeps of those that it learned, and how far other rows are from them."""
