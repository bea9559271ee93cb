"""The start of a connection: each end proves that it knows the job's secret, which never travels.

    server -> client   hello: magic 4s | version u16 | verdict u16 | nonce 32s
    client -> server   proof: magic 4s | version u16 | 0 u16       | nonce 32s | HMAC("client", hello, nonce) 32s
    server -> client   proof: magic 4s | version u16 | verdict u16 | HMAC("server", hello, nonce) 32s

HMAC is HMAC-SHA256 under the secret's SHA-256, since HMAC itself takes a key and the same key with zeros after it for one.
Each end's nonce is in both proofs, so none can be replayed; the word tells them apart, so none can be reflected.
What follows on the connection is protected against others on the network only with TLS.

Source: Krawczyk, Bellare, Canetti, HMAC: Keyed-Hashing for Message Authentication, RFC 2104; the exchange is ISO/IEC 9798-4's
mutual authentication with check functions, three passes.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import secrets
import struct
from enum import IntEnum
from typing import Protocol

from .codec import WireError
from .wire import MAGIC, VERSION

HELLO = struct.Struct("<4sHH32s")
PROOF = struct.Struct("<4sHH32s32s")
NONCE_BYTES = 32


class Verdict(IntEnum):
    """What a server thinks of a client."""

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


def full() -> bytes:
    """Return what a server says instead of a hello when it has as many connections as it may."""
    return HELLO.pack(MAGIC, VERSION, Verdict.FULL, bytes(NONCE_BYTES))


def welcome(stream: Stream, secret: bytes) -> None:
    """Let a client in; the server's side.

    Raises:
        WireError: the client is of another kind or version, or does not know the secret; it has been told.
    """
    hello = HELLO.pack(MAGIC, VERSION, Verdict.WELCOME, secrets.token_bytes(NONCE_BYTES))
    stream.send(hello)
    magic, version, _, nonce, proof = PROOF.unpack(stream.receive(PROOF.size))
    known = hmac.compare_digest(proof, tag(secret, b"client", hello, nonce))
    if (magic, version) != (MAGIC, VERSION) or not known:
        with contextlib.suppress(OSError):  # it may have gone
            stream.send(HELLO.pack(MAGIC, VERSION, Verdict.REFUSED, bytes(NONCE_BYTES)))
        check(magic, version)
        raise WireError("the client does not know the secret of this job")
    stream.send(HELLO.pack(MAGIC, VERSION, Verdict.WELCOME, tag(secret, b"server", hello, nonce)))


def introduce(stream: Stream, secret: bytes) -> None:
    """Make oneself known to a server and check it; the client's side.

    Raises:
        WireError: the server is of another kind or version, is full, refuses, or does not know the secret.
    """
    hello = stream.receive(HELLO.size)
    read_verdict(hello)
    nonce = secrets.token_bytes(NONCE_BYTES)
    stream.send(PROOF.pack(MAGIC, VERSION, 0, nonce, tag(secret, b"client", hello, nonce)))
    proof = read_verdict(stream.receive(HELLO.size))
    if not hmac.compare_digest(proof, tag(secret, b"server", hello, nonce)):
        raise WireError("the server does not know the secret of this job")


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


def tag(secret: bytes, role: bytes, hello: bytes, nonce: bytes) -> bytes:
    return hmac.digest(hashlib.sha256(secret).digest(), role + hello + nonce, "sha256")
