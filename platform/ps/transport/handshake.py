"""The start of a connection: each end proves that it knows the job's secret, which never travels.

    server -> client   hello: magic 4s | version u16 | verdict u16 | nonce 32s
    client -> server   proof: magic 4s | version u16 | 0 u16       | nonce 32s | HMAC("client", hello, nonce, channel) 32s
    server -> client   proof: magic 4s | version u16 | verdict u16 | HMAC("server", hello, nonce, channel) 32s

HMAC is HMAC-SHA256 under the secret's SHA-256, since HMAC itself takes a key and the same key with zeros after it for one.
Each end's nonce is in both proofs, so none can be replayed; the word tells them apart, so none can be reflected. The channel is
what both ends see of their connection (sockets.py): with TLS the server's certificate, or else the name of a Unix socket. So a
proof is worthless to a man in the middle that has another certificate, or listens under that name, and passes messages on. What
follows on the connection is protected against others on the network only with TLS.

Source: Krawczyk, Bellare, Canetti, HMAC: Keyed-Hashing for Message Authentication, RFC 2104; the exchange is ISO/IEC 9798-4's
mutual authentication with check functions, three passes. The channel with TLS is tls-server-end-point of RFC 5929.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import secrets
import struct
from collections.abc import Callable
from enum import IntEnum
from typing import Protocol

from .codec import WireError
from .wire import MAGIC, VERSION

HELLO = struct.Struct("<4sHH32s")
PROOF = struct.Struct("<4sHH32s32s")
NONCE_BYTES = 32


class Verdict(IntEnum):
    """A server's verdict on a client."""

    WELCOME = 0
    REFUSED = 1
    FULL = 2


class Stream(Protocol):
    """A connection, both ways blocking, with a deadline of its own."""

    def receive(self, size: int) -> bytes:
        """Return the next `size` bytes."""
        ...

    def send(self, data: bytes) -> None:
        """Send all of data."""
        ...


def welcome(stream: Stream, secret: bytes, channel: bytes, enter: Callable[[], bool]) -> None:
    """Let a client in; the server's side.

    Args:
        channel: what the server sees of the connection.
        enter: called once the client has proved itself, before it is let in; False: there is no room for it.

    Raises:
        WireError: the client is of another kind or version, does not know the secret, or there is no room; the client has been
            notified.
    """
    hello = HELLO.pack(MAGIC, VERSION, Verdict.WELCOME, secrets.token_bytes(NONCE_BYTES))
    stream.send(hello)
    magic, version, _, nonce, proof = PROOF.unpack(stream.receive(PROOF.size))
    known = hmac.compare_digest(proof, tag(secret, b"client", hello, nonce, channel))
    if (magic, version) != (MAGIC, VERSION) or not known:
        turn_away(stream, Verdict.REFUSED)
        check(magic, version)
        raise WireError("the client does not have the secret of this job")
    if not enter():
        turn_away(stream, Verdict.FULL)
        raise WireError("there are as many connections as there may be")
    stream.send(HELLO.pack(MAGIC, VERSION, Verdict.WELCOME, tag(secret, b"server", hello, nonce, channel)))


def turn_away(stream: Stream, verdict: Verdict) -> None:
    """Notify a client that it is refused; it may have gone."""
    with contextlib.suppress(OSError):
        stream.send(HELLO.pack(MAGIC, VERSION, verdict, bytes(NONCE_BYTES)))


def introduce(stream: Stream, secret: bytes, channel: bytes) -> None:
    """Authenticate with a server and check it in turn; the client's side.

    Args:
        channel: what the client sees of the connection.

    Raises:
        WireError: the server is of another kind or version, is full, refuses, or does not know the secret.
    """
    hello = stream.receive(HELLO.size)
    read_verdict(hello)
    nonce = secrets.token_bytes(NONCE_BYTES)
    stream.send(PROOF.pack(MAGIC, VERSION, 0, nonce, tag(secret, b"client", hello, nonce, channel)))
    proof = read_verdict(stream.receive(HELLO.size))
    if not hmac.compare_digest(proof, tag(secret, b"server", hello, nonce, channel)):
        raise WireError("the server does not have the secret of this job")


def read_verdict(hello: bytes) -> bytes:
    """Return the last field of a hello or of a server's proof that lets the client in."""
    magic, version, verdict, last = HELLO.unpack(hello)
    check(magic, version)
    if verdict == Verdict.FULL:
        raise WireError("the server has as many connections as it may")
    if verdict != Verdict.WELCOME:
        raise WireError("the server refused: the secret is not that of its job")
    return bytes(last)


def check(magic: bytes, version: int) -> None:
    if magic != MAGIC:
        raise WireError(f"expected xpsql at the other end, which says {MAGIC!r}, got {magic!r}")
    if version != VERSION:
        raise WireError(f"expected version {VERSION} of the protocol, got {version}; use one version of xpsql everywhere")


def tag(secret: bytes, role: bytes, hello: bytes, nonce: bytes, channel: bytes) -> bytes:
    return hmac.digest(hashlib.sha256(secret).digest(), role + hello + nonce + channel, "sha256")
