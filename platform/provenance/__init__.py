"""Versions that can be made again: what each was made from, made anew and compared, signatures, and who changed what."""
