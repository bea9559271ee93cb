"""An algorithm and an operator for xpsql."""
