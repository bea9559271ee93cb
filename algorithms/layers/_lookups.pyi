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

def choose_by_product(
    rows: Any, codes: Any, tables: Any, begin: Any, end: Any, queries: Any, absent: int, top: int, recent: int, out: Any
) -> None:
    """Choose elements of spans: the last `recent` that are there, and of those before them `top`, whose rows have the largest
    inner products with the span's query; of equal ones the newer.

    Args:
        rows: float32[n, dim].
        codes: of each field int32[k], places in the field's table.
        tables: of each field int32[m], rows; `absent` where there is no value.
        begin, end: int64[batch], spans of the codes.
        queries: float32[batch, fields * dim].
        out: int64[batch, top + recent], gets places, ascending, and then -1.

    Raises:
        ValueError: a span leaves the codes, or sizes do not fit.
    """

def choose_by_value(
    codes: Any, tables: Any, begin: Any, end: Any, by: int, wanted: Any, absent: int, top: int, recent: int, out: Any
) -> None:
    """As choose_by_product, of those before the newest `top` whose row of field `by` is the span's of `wanted`, int32[batch];
    none where that is `absent`."""

def mark_spans(codes: Any, begin: Any, end: Any, out: Any) -> None:
    """Write for each code of spans, int32[k] of codes, the first span that has it, where `out`, int32[codes], is negative."""
