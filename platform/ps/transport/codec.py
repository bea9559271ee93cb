"""Serialization of messages: a table of contents and the raw buffers of arrays, with the message's declaration as the schema.

A message is a NamedTuple. Its fields are int, float, bool, str, bytes, NumPy arrays, or others that NumPy reads (`jax.Array |
NDArray[...]`, which arrive as NumPy's), other NamedTuples, `X | None`, tuples `tuple[X, ...]` and mappings `dict[str, X]`. The
annotations are the schema, so a new field needs nothing here. Values stand in the order of declaration, without names or tags;
a checksum of the declaration, which travels in the header of each frame, tells peers of different versions apart.

The table of contents, little-endian: int as int64, float as float64, bool and "is there" as one byte, str and bytes as a
uint32 length and the bytes, mappings and tuples as a uint32 count and the entries, and an array as its type and number of axes
(one byte each) and the axes (uint64). Arrays lie in the body in the order of their mention, each at a multiple of 64 bytes.

Values are written and read in native code: at hundreds of shards a batch is a thousand messages, and each costs its fields.
"""

from __future__ import annotations

import types
import typing
import zlib
from collections.abc import Mapping
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from .._native import Memory, Outgoing, Schema

DTYPES = tuple(np.dtype(f"<{code}") for code in ("b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"))
CODES = {dtype.type: code for code, dtype in enumerate(DTYPES)}
ANY = -1
WORDS = {int: "int", float: "float", bool: "bool", str: "str", bytes: "bytes"}

Buffer = bytes | bytearray | memoryview
Bytes = NDArray[np.uint8]
Description = tuple[Any, ...]
M = TypeVar("M")


class WireError(Exception):
    """Bytes that are no message of this version; what was expected and what came."""


class Encoded(NamedTuple):
    """A message on its way out.

    Attributes:
        contents: the table of contents, with zeros up to a multiple of 64 bytes.
        contents_bytes: without the zeros.
        body: the arrays' own memory, and zeros between.
    """

    contents: bytes
    contents_bytes: int
    body: list[Buffer]


class Codec(Generic[M]):
    """Encodes and decodes the messages of one declaration.

    Args:
        declared: a NamedTuple.

    Attributes:
        checksum: of the declaration, uint32.

    Raises:
        TypeError: a field cannot travel; names it.
    """

    def __init__(self, declared: type[M]) -> None:
        description = describe(declared, declared.__name__)
        self.declared = declared
        self.checksum = zlib.crc32(text_of(description).encode())
        self._schema = Schema(description, DTYPES)

    @property
    def name(self) -> str:
        """The declaration's name."""
        return self.declared.__name__

    def encode(self, message: M) -> Encoded:
        """Return a message as buffers; arrays are not copied unless they lie apart in memory.

        Raises:
            TypeError, OverflowError: a value is not of its declared type.
        """
        return Encoded._make(self._schema.encode(message))

    def frame(self, head: bytes, request: int, message: M) -> Outgoing:
        """Return a message as a frame to send; see encode.

        Args:
            head: of 48 bytes, see wire.py; its sizes and the number of its request are set.
        """
        return Outgoing(self._schema, head, request, message)

    def decode(self, rest: Bytes | Memory, contents_bytes: int) -> M:
        """Return the message of a frame; its arrays are views.

        Args:
            rest: uint8[n], the table of contents, zeros up to a multiple of 64, and the body.
            contents_bytes: of the table of contents.

        Raises:
            WireError: the bytes are no such message.
        """
        try:
            message: M = self._schema.decode(rest, contents_bytes)
        except ValueError as error:
            raise WireError(str(error)) from error
        return message


def describe(hint: Any, where: str) -> Description:
    """Return how values of an annotated field travel: a word, and what they are made of.

    Raises:
        TypeError: they cannot.
    """
    hint = unaliased(hint)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint in WORDS:
        return (WORDS[hint],)
    if isinstance(hint, type) and issubclass(hint, tuple) and hasattr(hint, "_fields"):
        hints = typing.get_type_hints(hint)
        return ("record", hint, tuple(describe(hints[field], f"{hint.__name__}.{field}") for field in hint._fields))
    if origin is np.ndarray:
        (scalar,) = typing.get_args(arguments[1])
        return ("array", CODES.get(scalar, ANY))
    if origin in (typing.Union, types.UnionType) and len(arguments) == 2:
        if arguments[1] is type(None):
            return ("maybe", describe(arguments[0], where))
        if typing.get_origin(unaliased(arguments[1])) is np.ndarray:
            return describe(arguments[1], where)
    if origin is tuple and len(arguments) == 2 and arguments[1] is ...:
        return ("many", describe(arguments[0], where))
    if origin in (dict, Mapping) and arguments[0] is str:
        return ("named", describe(arguments[1], where))
    raise TypeError(f"{where} cannot travel: expected a type that platform/ps/transport/codec.py lists, got {hint}")


def unaliased(hint: Any) -> Any:
    """Return what an alias with arguments stands for; from NumPy 2.5 on `NDArray` is one."""
    value = getattr(typing.get_origin(hint), "__value__", None)
    return hint if value is None else value[typing.get_args(hint)]


def text_of(description: Description) -> str:
    """Return a description as text that is the same in every process, with the names of records and of fields."""
    word, *parts = description
    if word == "record":
        declared, fields = parts
        named = zip(declared._fields, (text_of(field) for field in fields), strict=True)
        return f"{declared.__name__}({', '.join(f'{name}: {text}' for name, text in named)})"
    if word == "array":
        return f"array {parts[0]}"
    return " ".join([word, *(text_of(part) for part in parts)])
