"""The wire format: frames of requests and answers on a connection.

A frame is a header of 48 bytes, little-endian, then the table of contents of its message, zeros up to a multiple of 64 bytes,
then the arrays, each at a multiple of 64 bytes from the first (see codec.py):

    magic 4s | version u16 | status u16 | checksum u32 | contents_bytes u32 | body_bytes u64 | request u64 | kind 16s

`checksum` is the declaration's of the message, `request` a number that the answer repeats, `kind` the name of the call. A
reader checks header and sizes before it takes memory.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Generic, NamedTuple, TypeVar

from ... import errors
from .._native import Frame, Frames, Outgoing
from .codec import Codec, WireError

MAGIC = b"XPSQ"
VERSION = 1
HEADER = struct.Struct("<4sHHIIQQ16s")
KIND_BYTES = 16

Q = TypeVar("Q")
A = TypeVar("A")


class Status(IntEnum):
    """What a frame is."""

    REQUEST = 0
    ANSWER = 1
    FAILURE = 2


class ConnectionLimits(NamedTuple):
    """What an end of a connection grants the other.

    Attributes:
        connections: at once, of a server, that have proved themselves.
        strangers: connections that have not yet; where more come, the oldest goes.
        frame_bytes: of one frame.
        contents_bytes: of its table of contents.
        proof_seconds: until a client has proved itself, of a server.
        handshake_seconds: to connect, and for each answer of the handshake, of a client.
        stall_seconds: from the first to the last byte of a frame.
    """

    connections: int = 1024
    strangers: int = 128
    frame_bytes: int = 1 << 30
    contents_bytes: int = 1 << 20
    proof_seconds: float = 2.0
    handshake_seconds: float = 10.0
    stall_seconds: float = 120.0


class Failure(NamedTuple):
    """The answer to a request that failed.

    Attributes:
        kind: the name of the class of errors.py.
        message: of the error.
    """

    kind: str
    message: str


class Acknowledged(NamedTuple):
    """The answer to a request that returns nothing."""


class Method(Generic[Q, A]):
    """A request that a server answers: a name of at most 16 bytes, and the NamedTuples of both ways.

    PING = Call("ping", Ping, Acknowledged)
    """

    def __init__(self, name: str, request: type[Q], answer: type[A]) -> None:
        if not 0 < len(name.encode()) <= KIND_BYTES:
            raise ValueError(f"the name of a call must have 1 to {KIND_BYTES} bytes, got {name!r}")
        self.name = name
        self.kind = name.encode().ljust(KIND_BYTES, b"\0")
        self.request = Codec(request)
        self.answer = Codec(answer)
        self.request_head = head(Status.REQUEST, self.kind, self.request)
        self.answer_head = head(Status.ANSWER, self.kind, self.answer)


@dataclass(frozen=True)
class Handler(Generic[Q, A]):
    """How a server answers one call. `answer` runs on the connection's thread, side by side with other connections'."""

    call: Method[Q, A]
    answer: Callable[[Q], A]


FAILURE = Codec(Failure)


def frames(limits: ConnectionLimits) -> Frames:
    """Return what cuts received bytes into frames, and raises WireError for others."""
    return Frames(WireError, MAGIC, VERSION, limits.contents_bytes, limits.frame_bytes)


def head(status: Status, kind: bytes, codec: Codec[Any]) -> bytes:
    """Return what is the same in the headers of all frames of a kind."""
    return HEADER.pack(MAGIC, VERSION, status, codec.checksum, 0, 0, 0, kind)


def pack(status: Status, kind: bytes, request: int, codec: Codec[Q], message: Q) -> Outgoing:
    """Return a frame to send; arrays are not copied."""
    return codec.frame(head(status, kind, codec), request, message)


def message(frame: Frame, codec: Codec[Q]) -> Q:
    """Return the message of a frame; its arrays are views of it.

    Raises:
        WireError: the frame holds another message.
    """
    if frame.checksum != codec.checksum:
        raise WireError(f"this is not the {codec.name} of this version; use one version of xpsql everywhere")
    return codec.decode(frame.rest, frame.contents_bytes)


def failure_of(error: BaseException, kind: str) -> Failure:
    """Return an error as it travels; what is not one of errors.py becomes a TrainingError with its class and message."""
    name = type(error).__name__
    if isinstance(error, errors.XpsqlError) and name in RAISED:
        return Failure(name, str(error))
    return Failure("TrainingError", f"{kind} failed with {name}: {error}")


def error_of(failure: Failure) -> errors.XpsqlError:
    """Return the error that travelled."""
    return RAISED.get(failure.kind, errors.TrainingError)(failure.message)


RAISED: dict[str, Callable[[str], errors.XpsqlError]] = {
    name: error for name, error in vars(errors).items() if isinstance(error, type) and issubclass(error, errors.XpsqlError)
}
