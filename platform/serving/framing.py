"""Where the body of a request begins and ends: by one rule, or the request is refused, for a proxy may have another."""

from __future__ import annotations

from collections.abc import Mapping

from .refusal import RequestError


def check_framing(version: str, method: str, headers: Mapping[str, str]) -> None:
    """Refuse what servers read in several ways.

    Args:
        headers: by name in lower case; values of a name that came several times are joined by ", ".

    Raises:
        RequestError: the version, the method, Host or Transfer-Encoding.
    """
    if version not in ("1.1", "1.0"):
        raise RequestError(400, f"This service speaks HTTP/1.1; the request says HTTP/{version}.")
    if method == "CONNECT":
        raise RequestError(405, "This service is not a proxy: it answers GET and POST, not CONNECT.")
    host = headers.get("host")
    if host is None:
        if version == "1.1":
            raise RequestError(400, "A request of HTTP/1.1 names its Host; this one has none.")
    elif " " in host or "\t" in host:
        raise RequestError(400, f"A request has one Host; this one has {host[:80]!r}.")
    coding = headers.get("transfer-encoding")
    if coding is not None and (version == "1.0" or coding.strip().lower() != "chunked"):
        raise RequestError(
            400,
            f"Transfer-Encoding may be chunked, in HTTP/1.1; it is {coding[:80]!r} in HTTP/{version}. Send the body as it is.",
        )


def has_body(headers: Mapping[str, str]) -> bool:
    return "transfer-encoding" in headers or headers.get("content-length", "0") != "0"


def framed_alike(keeps: bool, headers: Mapping[str, str]) -> bytes:
    """Return a head of POST whose body ends where that of a request does, without its wish for another protocol."""
    name = "transfer-encoding" if "transfer-encoding" in headers else "content-length"
    connection = "keep-alive" if keeps else "close"
    return f"POST / HTTP/1.1\r\nconnection: {connection}\r\n{name}: {headers[name]}\r\n\r\n".encode("latin-1")
