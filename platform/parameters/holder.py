"""The holder of a service whose shards are tasks: it starts them, answers clients, and begins a new epoch where one is lost.

What is lost with a shard is what was pushed since the newest checkpoint: all shards go back to it, so that rows are of one
moment, and clients are told so.
"""

from __future__ import annotations

import contextlib
import functools
import json
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from importlib.metadata import version
from types import TracebackType
from typing import Any, Self

from ..engines.tasks import Tasks
from ..errors import LostError, TrainingError, XpsqlError
from ..ps.transport.base import ShardsClient
from ..ps.transport.over_sockets import SOCKETS
from ..ps.transport.tls import make_certificate
from ..ps.transport.wire import ConnectionLimits
from ..training.parallelism import Places
from ..training.tasks.cluster import Cluster, cluster
from .calls import ORDER, order_handler, ordered
from .contact import own_contact, write_contact
from .held import Answer
from .hosting import HostJob, host_tables
from .opening import OpenedService
from .service import ParameterService

POLL_SECONDS = 0.1
START_SECONDS, ORDER_SECONDS, END_SECONDS = 600.0, 600.0, 60.0
SECRET_BYTES = 32
MOST_FAILED = 3
"""So often shards may be lost before all serve, one after the other."""
MOST_CLIENTS = 1024


class Holder:
    """Holds a service; a context manager, which begins when all shards serve.

    Args:
        tasks: where shards run.
        encrypt: use TLS.
        checkpoint_seconds: between checkpoints; None: at a client's word alone.
        tell: receives what happens, as lines of text.

    Attributes:
        stopping: set when somebody asked it to stop.
        contact: how clients reach it.

    Raises:
        XpsqlError: where its block begins: the shards do not serve.
    """

    def __init__(
        self,
        opened: OpenedService,
        tasks: Tasks,
        encrypt: bool,
        checkpoint_seconds: float | None,
        tell: Callable[[str], None],
    ) -> None:
        self._tasks, self._encrypt, self._tell = tasks, encrypt, tell
        self._checkpoint_seconds = checkpoint_seconds
        self.service = ParameterService(opened, self._ask)
        self.stopping = threading.Event()
        self._ready, self._changed = False, threading.Condition()
        self._cluster: Cluster | None = None
        self._addresses: list[list[Any]] = []
        self._failed: XpsqlError | None = None
        self._thread = threading.Thread(target=self._run, name="xpsql parameter server", daemon=True)
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            held = self.service.opened
            stack.enter_context(self.service)
            certificate = make_certificate() if self._encrypt else None
            secret = secrets.token_bytes(SECRET_BYTES)
            limits = ConnectionLimits(connections=MOST_CLIENTS)
            name = f"parameter server {held.name}"
            self._server = stack.enter_context(
                SOCKETS.serve(name, [order_handler(self.order)], secret, self._tasks.host, limits, certificate)
            )
            stack.callback(self._end)
            self._thread.start()
            self._wait_until_ready(START_SECONDS)
            public = None if certificate is None else certificate.public
            self.contact = own_contact(held.name, held.folder, self._server.address, secret, public)
            write_contact(held.folder.contact, self.contact)
            stack.callback(held.folder.contact.unlink, missing_ok=True)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stack.close()

    def order(self, what: str, values: Mapping[str, Any]) -> Answer:
        """Carry out a client's order, once all shards serve.

        Raises:
            XpsqlError: of the order, or shards that do not serve in time.
        """
        self._wait_until_ready(START_SECONDS)
        if what == "stop":
            if values.get("checkpoint"):
                self.service.order("checkpoint", {"files": None})
            self._server.when_closed(self.stopping.set)  # it has the answer then
            return {}
        answer = dict(self.service.order(what, values))
        if what == "join":
            self._server.when_closed(functools.partial(self.service.forget, answer["number"]))
            assert self._cluster is not None
            contact = self._cluster.contact
            answer |= {"addresses": self._addresses, "secret": contact.secret.hex(), "public": contact.public}
        return answer

    def wait(self) -> None:
        """Wait until somebody asks it to stop.

        Raises:
            XpsqlError: the shards cannot be had any more.
        """
        while not self.stopping.wait(POLL_SECONDS):
            if self._failed is not None:
                raise self._failed

    def _ask(self, what: str, values: Mapping[str, Any]) -> list[Answer]:
        made = self._cluster
        if made is None:
            raise LostError(f"The shards of {self.service.opened.name} are being started again.")
        with self._client(made) as client:
            return [json.loads(one.text) for one in client.each(ORDER, ordered(what, values), ORDER_SECONDS)]

    def _client(self, made: Cluster) -> ShardsClient:
        addresses = made.coordinator.shards()
        if addresses is None:
            raise LostError(f"A shard of {self.service.opened.name} is lost.")
        return made.dial_shards(addresses, ORDER_SECONDS)

    def _wait_until_ready(self, seconds: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._ready or self._failed is not None, seconds)
            ready = self._ready
        if self._failed is not None:
            raise self._failed
        if not ready:
            raise TrainingError(
                f"The shards of {self.service.opened.name} do not serve after {seconds:.0f} s; its log says why."
            )

    def _run(self) -> None:
        """Have shards serve, epoch by epoch, until it is to stop."""
        failed = 0
        while not self.stopping.is_set():
            try:
                self._serve()
            except LostError as error:
                failed = 0 if self._set(False) else failed + 1
                self._tell(f"{error}")
                if failed < MOST_FAILED and self._again(str(error)):
                    continue
                self._fail(error)
                return
            except XpsqlError as error:
                self._fail(error)
                return
            finally:
                self._set(False)

    def _serve(self) -> None:
        """Have shards serve in one epoch."""
        held = self.service.opened
        job, places = f"parameter server {held.name}, epoch {held.epoch}", Places(held.shards, 0)
        with cluster(self._tasks, job, places, (), lambda role, number: None, None, self._encrypt, SOCKETS) as made:
            about = HostJob(
                made.contact,
                held.declared.as_json(),
                held.shards,
                held.epoch,
                held.source,
                version("xpsql"),
                held.folder.path,
            )
            made.start_shards(functools.partial(host_tables, about, made.certificate), held.shards)
            self._addresses = [list(address) for address in made.addresses()]
            self._cluster = made
            self._set(True)
            taken = time.monotonic()
            while not self.stopping.wait(POLL_SECONDS):
                made.coordinator.check()
                if self._checkpoint_seconds is not None and time.monotonic() - taken >= self._checkpoint_seconds:
                    self._checkpoint()
                    taken = time.monotonic()
            self._set(False)
            made.end()

    def _checkpoint(self) -> None:
        """Take a checkpoint; where the disk does not take it, the server goes on, and tells.

        Raises:
            LostError: a shard is lost.
        """
        try:
            self.service.order("checkpoint", {"files": None})
        except LostError:
            raise
        except XpsqlError as error:
            self._tell(f"No checkpoint was taken: {error}")

    def _again(self, why: str) -> bool:
        """Begin a new epoch from the newest checkpoint; return whether one can begin."""
        try:
            self._tell(self.service.restart(why))
        except XpsqlError as error:
            self._tell(str(error))
            return False
        return True

    def _set(self, ready: bool) -> bool:
        """Set whether shards serve, and return whether they did."""
        with self._changed:
            before, self._ready = self._ready, ready
            if not ready:
                self._cluster = None
            self._changed.notify_all()
            return before

    def _fail(self, error: XpsqlError) -> None:
        with self._changed:
            self._failed = error
            self._changed.notify_all()

    def _end(self) -> None:
        self.stopping.set()
        with contextlib.suppress(AttributeError):  # shards that are being started are waited for no longer
            made = self._cluster
            if made is not None:
                made.coordinator.end()
        if self._thread.ident is not None:
            self._thread.join(END_SECONDS)
