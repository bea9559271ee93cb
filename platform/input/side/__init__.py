"""Vectors with ids, such as those of images: written once, then looked up by the keys of features."""
