"""One training, as data flows: encode, pull, compute, push."""
