"""Look-ups of rows, and their gradients, as custom calls of XLA."""

from typing import Any

def calls() -> dict[str, Any]:
    """Return the calls by name, each as a capsule that jax.ffi registers."""
