"""Look-ups of rows, and their gradients, as custom calls of XLA."""

from typing import Any

def set_threads(count: int) -> None:
    """Let so many threads of this process work on a call at once, the calling one included; 1 until it is set.
    What comes out is the same."""

def keep_freed(bytes: int) -> None:
    """Let the C library keep so many bytes that are freed for what is allocated next, in place of giving them back to the
    system, and take large arrays from them, too. Without effect where the library is not glibc."""

def calls() -> dict[str, Any]:
    """Return the calls by name, each as a capsule that jax.ffi registers."""

def gather(vectors: Any, index: Any, gathered: Any) -> None:
    """As the call `gather`, for arrays of numpy or tensors of PyTorch, float32 and int32, of two dimensions; the last one gets
    the result. Indices are not checked, as in calls."""

def scatter(gathered: Any, index: Any, gradient: Any) -> None:
    """As the call `scatter`."""

def project(vectors: Any, index: Any, kernel: Any, sums: Any) -> None:
    """As the call `project`."""

def project_gradients(vectors: Any, index: Any, kernel: Any, sums: Any, by_vectors: Any, by_kernel: Any) -> None:
    """As the call `project_gradients`; the last two get the results."""
