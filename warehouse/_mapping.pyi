"""Files that are mapped to be read, and that may be cut off meanwhile.

A process that reads what another one has cut off a mapped file gets the signal SIGBUS, and ends. Here it reads zeros, and the
mapping says so afterwards: a handler of SIGBUS sees to it, and hands what is of no mapping to the handler before it.
"""

from collections.abc import Sequence

class Mapping:
    """A file that is mapped, as a buffer that cannot be written.

    Args:
        descriptor: of the open file, which may be closed afterwards.
        size: its bytes, at least 1.
        advices: for the kernel, numbers of `mmap`; those that it does not know are left out.

    Raises:
        OSError: it cannot be mapped.
        ValueError: this process has mapped too many.
    """

    def __init__(self, descriptor: int, size: int, advices: Sequence[int]) -> None: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...
    @property
    def cut_off(self) -> bool:
        """Whether the file has become shorter than it was, or could not be read: what was read may have been zeros."""
