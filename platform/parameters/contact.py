"""How processes reach a service: a file of its folder that its user alone may read."""

from __future__ import annotations

import json
import os
import socket
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from ..errors import ModelError, NotAvailableError, StatementError
from ..ps.transport.sockets import Address
from .opening import ServiceFolder

FORMAT = 1
MODE = 0o600


class ServiceContact(NamedTuple):
    """What a client needs to reach a service; it travels by pickle, in closures of Spark, and has the secret.

    Attributes:
        xpsql: the holder's version.
        host, process: where the holder is, for messages.
        public: its certificate as PEM; None without TLS.
    """

    name: str
    folder: str
    address: Address
    secret: bytes
    public: str | None
    xpsql: str
    host: str
    process: int

    def check(self) -> None:
        """Require this version of xpsql.

        Raises:
            StatementError: the service has another one.
        """
        if self.xpsql != (own := version("xpsql")):
            raise StatementError(
                f"Parameter server {self.name} runs xpsql {self.xpsql}, and this process has {own}. Install one version in "
                "both."
            )


def own_contact(name: str, folder: ServiceFolder, address: Address, secret: bytes, public: str | None) -> ServiceContact:
    """Return the contact of a service that this process holds."""
    return ServiceContact(name, str(folder.path), address, secret, public, version("xpsql"), socket.gethostname(), os.getpid())


def write_contact(path: Path, contact: ServiceContact) -> None:
    """Write the file that processes of this user read; it appears whole.

    Raises:
        ModelError: the folder is not writable.
    """
    values = {**contact._asdict(), "format": FORMAT, "address": list(contact.address), "secret": contact.secret.hex()}
    new = path.with_suffix(f".{os.getpid()}.new")
    try:
        new.unlink(missing_ok=True)
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, MODE)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(json.dumps(values) + "\n")
        new.replace(path)
    except OSError as error:
        raise ModelError(
            f"Cannot write {path}: {error.strerror or error}. Give the warehouse a folder that you may write."
        ) from error


def read_contact(name: str, folder: ServiceFolder) -> ServiceContact:
    """Return the contact of a service that runs.

    Raises:
        NotAvailableError: it does not run, or is another user's.
        ModelError: the file is damaged, or others may read it.
    """
    path = folder.contact
    try:
        mode = path.stat().st_mode & 0o777
        values = json.loads(path.read_text(encoding="utf-8"))
        values["address"], values["secret"] = Address(*values["address"]), bytes.fromhex(values["secret"])
        if values.pop("format") != FORMAT:
            raise ValueError("it is of another version of xpsql")
        contact = ServiceContact(**values)
    except FileNotFoundError as error:
        raise NotAvailableError(
            f"Parameter server {name} does not run: there is no {path}. Start it: xpsql ps start {name} --warehouse "
            f"{folder.path.parents[1]}."
        ) from error
    except PermissionError as error:
        raise NotAvailableError(f"Parameter server {name} is another user's: {path} cannot be read.") from error
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise ModelError(f"{path} is damaged: {error}. Stop and start parameter server {name} again.") from error
    if mode & 0o077:
        raise ModelError(f"{path} has the secret of parameter server {name}, and others may read it: chmod 600 {path}.")
    contact.check()
    return contact
