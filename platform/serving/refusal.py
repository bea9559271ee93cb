"""Refusals of the service with their HTTP status, and the limits that it checks before it parses."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from ..errors import XpsqlError

STRINGS = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)
"""Also one that does not end, so that a body is gone through once, whatever it holds."""
SHORT_BYTES = 1 << 16
OPENING, CLOSING = b"[{", b"]}"
NOT_BRACKETS = bytes(sorted(set(range(256)) - set(OPENING + CLOSING)))


class RequestError(XpsqlError):
    """A request that is not answered.

    Attributes:
        status: of HTTP, 400 to 499, or 503.
    """

    def __init__(self, status: int, message: str) -> None:
        self.status = status
        super().__init__(message)


@dataclass(frozen=True)
class RequestLimits:
    """What one request may hold: bytes of its body, brackets within brackets of JSON, and rows."""

    body_bytes: int = 16 << 20
    depth: int = 16
    rows: int = 16_384

    def check_body(self, count: int) -> None:
        """Refuse a body that is too large.

        Raises:
            RequestError: it is.
        """
        if count > self.body_bytes:
            raise RequestError(
                413, f"The body may have {self.body_bytes:,} bytes and has {count:,}. Send fewer rows a request."
            )

    def check_rows(self, count: int) -> None:
        """Refuse too many rows; see check_body."""
        if count > self.rows:
            raise RequestError(413, f"A request may have {self.rows:,} rows and this one has {count:,}. Send several.")

    def check_depth(self, body: bytes) -> None:
        """Refuse JSON whose brackets are nested too deep, without parsing it; see check_body."""
        if sum(map(body.count, (b"[", b"{"))) <= self.depth:
            return
        plain = len(body) <= SHORT_BYTES and b"\\" not in body  # then each quote begins or ends a string
        outside = b"".join(body.split(b'"')[::2]) if plain else STRINGS.sub(b"", body)
        brackets = np.frombuffer(outside.translate(None, NOT_BRACKETS), np.uint8)
        steps = np.where((brackets == OPENING[0]) | (brackets == OPENING[1]), 1, -1)
        if len(steps) and int(np.cumsum(steps).max()) > self.depth:
            raise RequestError(400, f"The JSON of the body is nested deeper than {self.depth} brackets. Send flatter values.")
