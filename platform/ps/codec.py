"""Messages as bytes: a table of contents and the raw buffers of its arrays, after the declaration of the message.

A message is a NamedTuple. Its fields are int, float, bool, str, bytes, NumPy arrays, or others that NumPy reads (`jax.Array |
NDArray[...]`, which arrive as NumPy's), other NamedTuples, `X | None`, tuples `tuple[X, ...]` and mappings `dict[str, X]`. The
annotations are the schema, so a new field needs nothing here. Values stand in the order of declaration, without names or tags;
a checksum of the declaration, which travels in the header of each frame, tells peers of different versions apart.

The table of contents, little-endian: int as int64, float as float64, bool and "is there" as one byte, str and bytes as a
uint32 length and the bytes, mappings and tuples as a uint32 count and the entries, and an array as its type and number of axes
(one byte each) and the axes (uint64). Arrays lie in the body in the order of their mention, each at a multiple of 64 bytes.
"""

from __future__ import annotations

import math
import struct
import types
import typing
import zlib
from collections.abc import Mapping
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

ALIGNMENT = 64
DTYPES = tuple(np.dtype(f"<{code}") for code in ("b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"))
CODES = {dtype: code for code, dtype in enumerate(DTYPES)}
SCALARS = {dtype.type: dtype for dtype in DTYPES}
MOST_AXES = 8
COUNT = struct.Struct("<I")
INTEGER = struct.Struct("<q")
FLOAT = struct.Struct("<d")
AXES = tuple(struct.Struct(f"<BB{axes}Q") for axes in range(MOST_AXES + 1))

Bytes = NDArray[np.uint8]
M = TypeVar("M")


class WireError(Exception):
    """Bytes that are no message of this version; what was expected and what came."""


class Encoded(NamedTuple):
    """A message on its way out.

    Attributes:
        contents: the table of contents.
        arrays: the body's arrays, C-contiguous and little-endian, to stand at multiples of 64 bytes.
        body_bytes: of the body, gaps included.
    """

    contents: bytearray
    arrays: list[NDArray[Any]]
    body_bytes: int


class Writer:
    """Collects a table of contents and the arrays it speaks of."""

    __slots__ = ("arrays", "contents")

    def __init__(self) -> None:
        self.contents = bytearray()
        self.arrays: list[NDArray[Any]] = []


class Reader:
    """Reads a table of contents from its start; arrays are views of the body.

    Args:
        contents: the table of contents.
        body: uint8[body_bytes].
    """

    __slots__ = ("_at", "_body", "_body_at", "_contents")

    def __init__(self, contents: memoryview, body: Bytes) -> None:
        self._contents = contents
        self._body = body
        self._at = self._body_at = 0

    def unpack(self, layout: struct.Struct) -> tuple[Any, ...]:
        """Return the next numbers.

        Raises:
            WireError: the table of contents ends before.
        """
        at = self._at
        self._at += layout.size
        try:
            return layout.unpack_from(self._contents, at)
        except struct.error:
            raise WireError(f"a table of contents ends after {len(self._contents)} bytes, expected more") from None

    def count(self) -> int:
        """Return the next count, of entries that take no less than no bytes; bounded by the bytes that are left."""
        (count,) = self.unpack(COUNT)
        if count > len(self._contents) - self._at:
            raise WireError(f"a table of contents counts {count} entries, more than its {len(self._contents)} bytes can hold")
        return int(count)

    def bytes(self) -> memoryview:
        """Return the next string of bytes."""
        count = self.count()
        self._at += count
        return self._contents[self._at - count : self._at]

    def array(self) -> NDArray[Any]:
        """Return the next array, a view of the body."""
        code, axes = self.unpack(AXES[0])
        if axes > MOST_AXES or code >= len(DTYPES):
            raise WireError(f"an array has type {code} and {axes} axes, expected at most {len(DTYPES) - 1} and {MOST_AXES}")
        self._at -= 2
        shape, dtype, start = self.unpack(AXES[axes])[2:], DTYPES[code], self._body_at
        end = start + math.prod(shape) * dtype.itemsize
        if end > len(self._body):
            raise WireError(f"an array {dtype}{list(shape)} exceeds the {len(self._body) - start} bytes that are left")
        self._body_at = aligned(end)
        try:
            return np.ndarray(shape, dtype, self._body, start)
        except ValueError as error:
            raise WireError(f"an array cannot have the shape {list(shape)}: {error}") from error

    def end(self) -> None:
        """Check that nothing is left.

        Raises:
            WireError: bytes are left.
        """
        if self._at != len(self._contents) or self._body_at != len(self._body):
            raise WireError(
                f"a message ends after {self._at} + {self._body_at} bytes, {len(self._contents)} + {len(self._body)} came"
            )


class Type(Protocol):
    """How values of one type are written and read; `name` tells it apart from any other."""

    name: str

    def write(self, value: Any, to: Writer) -> None:
        """Append a value.

        Raises:
            TypeError, struct.error: it is not of this type.
        """
        ...

    def read(self, source: Reader) -> Any:
        """Return the next value.

        Raises:
            WireError: the bytes are not of this type.
        """
        ...


class Number:
    """int, float."""

    def __init__(self, name: str, layout: struct.Struct) -> None:
        self.name = name
        self._layout = layout

    def write(self, value: Any, to: Writer) -> None:
        to.contents += self._layout.pack(value)

    def read(self, source: Reader) -> Any:
        return source.unpack(self._layout)[0]


class Truth:
    """bool."""

    name = "bool"
    _layout = struct.Struct("<?")

    def write(self, value: Any, to: Writer) -> None:
        to.contents.append(bool(value))

    def read(self, source: Reader) -> bool:
        return bool(source.unpack(self._layout)[0])


class Text:
    """str."""

    name = "str"

    def write(self, value: Any, to: Writer) -> None:
        encoded = value.encode()
        to.contents += COUNT.pack(len(encoded))
        to.contents += encoded

    def read(self, source: Reader) -> str:
        try:
            return str(source.bytes(), "utf-8")
        except UnicodeDecodeError as error:
            raise WireError(f"a string is not UTF-8: {error}") from error


class Binary:
    """bytes."""

    name = "bytes"

    def write(self, value: Any, to: Writer) -> None:
        to.contents += COUNT.pack(len(value))
        to.contents += value

    def read(self, source: Reader) -> bytes:
        return bytes(source.bytes())


class Array:
    """A NumPy array of one dtype, or of any of DTYPES."""

    def __init__(self, dtype: np.dtype[Any] | None) -> None:
        self._dtype = dtype
        self.name = f"array[{dtype or 'any'}]"

    def write(self, value: Any, to: Writer) -> None:
        array = np.asarray(value)
        if not array.flags.c_contiguous:
            array = np.ascontiguousarray(array)
        if (self._dtype is not None and array.dtype != self._dtype) or array.dtype not in CODES:
            raise TypeError(f"expected an {self.name}, got {array.dtype}{list(array.shape)}")
        to.contents += AXES[array.ndim].pack(CODES[array.dtype], array.ndim, *array.shape)
        to.arrays.append(array)

    def read(self, source: Reader) -> NDArray[Any]:
        array = source.array()
        if self._dtype is not None and array.dtype != self._dtype:
            raise WireError(f"expected an {self.name}, got {array.dtype}{list(array.shape)}")
        return array


class Maybe:
    """X | None."""

    def __init__(self, of: Type) -> None:
        self._of = of
        self.name = f"{of.name}?"

    def write(self, value: Any, to: Writer) -> None:
        to.contents.append(value is not None)
        if value is not None:
            self._of.write(value, to)

    def read(self, source: Reader) -> Any:
        return self._of.read(source) if Truth().read(source) else None


class Many:
    """tuple[X, ...]."""

    def __init__(self, of: Type) -> None:
        self._of = of
        self.name = f"{of.name}*"

    def write(self, value: Any, to: Writer) -> None:
        to.contents += COUNT.pack(len(value))
        for item in value:
            self._of.write(item, to)

    def read(self, source: Reader) -> tuple[Any, ...]:
        return tuple([self._of.read(source) for _ in range(source.count())])


class Named:
    """dict[str, X]."""

    def __init__(self, of: Type) -> None:
        self._of = of
        self._key = Text()
        self.name = f"{{{of.name}}}"

    def write(self, value: Any, to: Writer) -> None:
        to.contents += COUNT.pack(len(value))
        for key, item in value.items():
            self._key.write(key, to)
            self._of.write(item, to)

    def read(self, source: Reader) -> dict[str, Any]:
        key, of = self._key, self._of
        return {key.read(source): of.read(source) for _ in range(source.count())}


class Record:
    """A NamedTuple, field by field."""

    def __init__(self, declared: type) -> None:
        hints = typing.get_type_hints(declared)
        self._fields = {field: type_of(hints[field], f"{declared.__name__}.{field}") for field in declared._fields}  # type: ignore[attr-defined]
        self._types = tuple(self._fields.values())
        self._make = declared
        self.name = f"{declared.__name__}({', '.join(f'{field}: {of.name}' for field, of in self._fields.items())})"

    def write(self, value: Any, to: Writer) -> None:
        for of, item in zip(self._types, value, strict=True):
            of.write(item, to)

    def read(self, source: Reader) -> Any:
        return self._make(*[of.read(source) for of in self._types])


SIMPLE: dict[Any, Type] = {
    int: Number("int", INTEGER),
    float: Number("float", FLOAT),
    bool: Truth(),
    str: Text(),
    bytes: Binary(),
}


def type_of(hint: Any, where: str) -> Type:
    """Return how an annotated field travels.

    Raises:
        TypeError: values of this annotation cannot travel; names the field.
    """
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint in SIMPLE:
        return SIMPLE[hint]
    if isinstance(hint, type) and issubclass(hint, tuple) and hasattr(hint, "_fields"):
        return Record(hint)
    if origin is np.ndarray:
        (scalar,) = typing.get_args(arguments[1])
        return Array(SCALARS.get(scalar))
    if origin in (typing.Union, types.UnionType) and len(arguments) == 2:
        if arguments[1] is type(None):
            return Maybe(type_of(arguments[0], where))
        if typing.get_origin(arguments[1]) is np.ndarray:
            return type_of(arguments[1], where)
    if origin is tuple and len(arguments) == 2 and arguments[1] is ...:
        return Many(type_of(arguments[0], where))
    if origin in (dict, Mapping) and arguments[0] is str:
        return Named(type_of(arguments[1], where))
    raise TypeError(f"{where} cannot travel: expected a type that platform/ps/codec.py lists, got {hint}")


class Codec(Generic[M]):
    """Encodes and decodes the messages of one declaration.

    Args:
        declared: a NamedTuple.

    Attributes:
        checksum: of the declaration, uint32.
    """

    def __init__(self, declared: type[M]) -> None:
        self._record = Record(declared)
        self.declared = declared
        self.name = declared.__name__
        self.checksum = zlib.crc32(self._record.name.encode())

    def encode(self, message: M) -> Encoded:
        """Return a message's table of contents and arrays, which are not copied unless they lie apart in memory.

        Raises:
            TypeError, struct.error: a value is not of its declared type.
        """
        writer = Writer()
        self._record.write(message, writer)
        return Encoded(writer.contents, writer.arrays, sum([aligned(array.nbytes) for array in writer.arrays]))

    def decode(self, contents: memoryview, body: Bytes) -> M:
        """Return the message; its arrays are views of the body.

        Raises:
            WireError: the bytes are no such message.
        """
        reader = Reader(contents, body)
        message: M = self._record.read(reader)
        reader.end()
        return message


def aligned(size: int) -> int:
    """Return the least multiple of 64 that is not below."""
    return size + (-size) % ALIGNMENT
