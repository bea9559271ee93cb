"""Inputs that grow while they are read: what is there is cut into lists of splits that stay as they are."""
