"""Signatures of versions: who vouches for the bytes of one, in the form of minisign.

`signature.json` in the version's folder has the SHA-256 of its manifest and of all its files; `signature.json.minisig` signs
that by Ed25519, so that `minisign -V -p team.pub -m signature.json` verifies it, too. A manifest never changes once its version
is ready.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ...warehouse.durable import replace_text, storing
from ...warehouse.manifest import FILE
from ..errors import ModelError, StatementError
from ..system import needing

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

    from ...warehouse.version import Version

SIGNED, SIGNATURE = "signature.json", "signature.json.minisig"
FORMAT = 1
PREHASHED, PLAIN = b"ED", b"Ed"
"""Algorithms of minisign: Ed25519 of a BLAKE2b-512, and of keys."""
KEY_BYTES, SIGNATURE_BYTES, ID_BYTES = 32, 64, 8
PRIVATE = "a private key of Ed25519 as PEM, without a password"
PUBLIC = "a public key, of minisign or of Ed25519 as PEM"
MADE_BY = {
    PRIVATE: "`openssl genpkey -algorithm ed25519` makes one",
    PUBLIC: "`xpsql sign --public FILE` writes the one of a private key",
}
"""What makes keys of a kind."""
UNTRUSTED, TRUSTED = "untrusted comment: ", "trusted comment: "


Refuse = Callable[[str], ModelError]
"""Returns the error of what must not be trusted, from why."""


class PublicKey(NamedTuple):
    """A key that verifies, and its id."""

    key: Ed25519PublicKey
    identity: bytes


def sign(version: Version, key: Path) -> str:
    """Sign a version, and return the public key in minisign's form.

    Args:
        key: a file with a private key of Ed25519 as PEM, without a password.

    Raises:
        StatementError: it is no such file, or the package cryptography is not installed.
        ModelError: a file of the version is damaged, or its folder is not writable.
    """
    private = private_key(key)
    text = json.dumps({"format": FORMAT, **contents(version)}, indent=1, sort_keys=True) + "\n"
    name = f"{version.manifest.model} v{version.number}"
    lines = signature_of(private, text.encode(), f"file:{SIGNED}\tmodel:{name}", name)
    with storing(version.folder):
        replace_text(version.folder / SIGNED, text)
        replace_text(version.folder / SIGNATURE, lines)
    raw = private.public_key().public_bytes_raw()
    identity = key_id(raw)
    return f"{UNTRUSTED}minisign public key {identity[::-1].hex().upper()}\n{encoded(PLAIN + identity + raw)}\n"


def signature_of(private: Ed25519PrivateKey, text: bytes, comment: str, name: str) -> str:
    """Return the signature of a text, as a file of minisign; its trusted comment begins with the time."""
    signature = private.sign(hashlib.blake2b(text).digest())
    comment = f"timestamp:{int(time.time())}\t{comment}"
    whole = private.sign(signature + comment.encode())
    head = PREHASHED + key_id(private.public_key().public_bytes_raw())
    lines = (f"{UNTRUSTED}signature of {name}", encoded(head + signature), TRUSTED + comment, encoded(whole))
    return "\n".join(lines) + "\n"


def verify(version: Version, key: Path) -> str:
    """Verify the signature of a version and all of its bytes, and return the signature's comment.

    Args:
        key: a file with a public key: of minisign, or of Ed25519 as PEM.

    Raises:
        StatementError: it is no such file, or the package cryptography is not installed.
        ModelError: there is no signature, it is another one's, or a file has changed since.
    """
    public = public_key(key)
    try:
        text, lines = (version.folder / SIGNED).read_bytes(), (version.folder / SIGNATURE).read_text("utf-8").splitlines()
    except FileNotFoundError as error:
        raise refused(version, "it has no signature") from error
    except (OSError, UnicodeDecodeError) as error:
        raise refused(version, f"its signature cannot be read ({error})") from error
    comment = checked(partial(refused, version), public, text, lines)
    said, found = values_of(version, text), contents(version)
    if said != {"format": FORMAT, **found}:
        changed = (
            sorted({*said.get("files", {}).items()} ^ {*found["files"].items()}) if isinstance(said.get("files"), dict) else []
        )
        names = ", ".join(dict.fromkeys(name for name, _ in changed)) or "what it is of"
        raise refused(version, f"{', '.join(names) or 'its name or its number'} changed since it was signed")
    return comment


def checked(refuse: Refuse, public: PublicKey, text: bytes, lines: list[str]) -> str:
    """Return the trusted comment of a signature of a text."""
    from cryptography.exceptions import InvalidSignature

    if len(lines) != 4 or not lines[0].startswith(UNTRUSTED) or not lines[2].startswith(TRUSTED):
        raise refuse("its signature is not a minisign file")
    signed, whole = decoded(refuse, lines[1]), decoded(refuse, lines[3])
    head = len(PREHASHED) + ID_BYTES
    if len(signed) != head + SIGNATURE_BYTES or len(whole) != SIGNATURE_BYTES or signed[:2] not in (PREHASHED, PLAIN):
        raise refuse("its signature is not a minisign file")
    if not hmac.compare_digest(signed[2:head], public.identity):
        raise refuse("it was signed by another key")
    comment = lines[2].removeprefix(TRUSTED)
    message = hashlib.blake2b(text).digest() if signed[:2] == PREHASHED else text
    try:
        public.key.verify(signed[head:], message)
        public.key.verify(whole, signed[head:] + comment.encode())
    except InvalidSignature as error:
        raise refuse("its signature does not fit") from error
    return comment


def values_of(version: Version, text: bytes) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise refused(version, f"{SIGNED} is damaged") from error
    return found if isinstance(found, dict) else {}


def contents(version: Version) -> dict[str, Any]:
    """Return what is signed of a version: its name, and the SHA-256 of its manifest and files, also of versions beneath."""
    files = {FILE: digest(version.folder / FILE)}
    for one in (*version.everything(), *version.beneath(all_of_them=True)):
        try:
            files[str(one.path.relative_to(version.folder.parent))] = digest(one.path)
        except OSError as error:
            raise refused(version, f"{one.path.name} cannot be read ({error})") from error
    return {"model": version.manifest.model, "version": version.number, "files": files}


def digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def refused(version: Version, why: str) -> ModelError:
    return ModelError(
        f"Version {version.number} of model {version.manifest.model} is not what somebody vouches for: {why}. Restore it from "
        "a backup, or look at it and sign it by xpsql sign."
    )


def private_key(path: Path) -> Ed25519PrivateKey:
    from_pem = serialization()
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    try:
        found = from_pem.load_pem_private_key(path.read_bytes(), None)
    except (OSError, ValueError, TypeError) as error:
        raise no_key(path, PRIVATE, told(error)) from error
    if not isinstance(found, Ed25519PrivateKey):
        raise no_key(path, PRIVATE, "another kind of key")
    return found


def public_key(path: Path) -> PublicKey:
    """Read a public key."""
    from_pem = serialization()
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        content = path.read_bytes()
        if content.lstrip().startswith(b"-----BEGIN"):
            found = from_pem.load_pem_public_key(content)
            if not isinstance(found, Ed25519PublicKey):
                raise no_key(path, PUBLIC, "another kind of key")
            return PublicKey(found, key_id(found.public_bytes_raw()))
        raw = base64.b64decode(content.decode().split("\n")[1], validate=True)
        if len(raw) != len(PLAIN) + ID_BYTES + KEY_BYTES or not raw.startswith(PLAIN):
            raise no_key(path, PUBLIC, f"{len(raw)} bytes")
        return PublicKey(Ed25519PublicKey.from_public_bytes(raw[-KEY_BYTES:]), raw[2 : 2 + ID_BYTES])
    except (OSError, ValueError, IndexError, binascii.Error) as error:
        raise no_key(path, PUBLIC, told(error)) from error


def serialization() -> Any:
    try:
        from cryptography.hazmat.primitives import serialization as found
    except ImportError as error:
        raise StatementError(needing("Signatures need the package cryptography", "tls")) from error
    return found


def told(error: Exception) -> str:
    """Return what is wrong with a file of a key, in words of ours."""
    if isinstance(error, OSError):
        return error.strerror or str(error)
    return "one with a password" if isinstance(error, TypeError) else "something else"


def no_key(path: Path, wanted: str, found: str) -> StatementError:
    return StatementError(f"{path} should be {wanted}, got {found}. {MADE_BY[wanted]}.")


def key_id(raw: bytes) -> bytes:
    """Return the id of a public key."""
    return hashlib.blake2b(raw, digest_size=ID_BYTES).digest()


def encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()


def decoded(refuse: Refuse, line: str) -> bytes:
    try:
        return base64.b64decode(line, validate=True)
    except (ValueError, binascii.Error) as error:
        raise refuse("its signature is not a minisign file") from error
