"""Vectors with ids, such as embeddings of images: written once, then looked up by the keys of features."""
