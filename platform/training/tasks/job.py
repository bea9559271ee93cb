"""A training on the tasks of an engine: what each task knows, and what it reports to the driver."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ....warehouse.entries import TableEntry
from ....warehouse.files import VersionFiles
from ....warehouse.storage import Storage
from ...engines.tasks import unshared
from ...errors import TrainingError
from ...input.dealing import TurnAssignment
from ...ps.transport.sockets import Address
from ...ps.transport.wire import Acknowledged, Method
from ..prepared import Prepared, TrainingInput
from ..recipe import recipe_of
from ..row_files.saved import SavedRows
from .messages import Contact
from .reports import Report, Terms

if TYPE_CHECKING:
    from ....warehouse.draft import Draft

WAIT_SECONDS = 600.0
NO_MORE, LATER = -1, -2


class Job(NamedTuple):
    """What the tasks of a training need to know; travels by pickle.

    Attributes:
        contact: where they meet.
        xpsql: the driver's version.
        input: of the training.
        folder: the version's, in the warehouse, which all machines share.
        tables: as the manifest describes them.
        epoch: of the driver.
        checkpoints: where they go.
        checkpoint: the name of the one that shards begin with; empty: they begin with the parent.
        memory_bytes: that a task may use; None: nothing limits it but the machine.
    """

    contact: Contact
    xpsql: str
    input: TrainingInput
    folder: Path
    tables: tuple[TableEntry, ...]
    epoch: int
    checkpoints: Storage
    checkpoint: str
    memory_bytes: int | None


class Take(NamedTuple):
    """A worker asks for its next turn."""

    worker: int
    attempt: int


class NextTurn(NamedTuple):
    """The next turn, as in TurnAssignment; its split is NO_MORE, or LATER where one may come: the worker asks again."""

    pass_number: int
    split: int
    start: int = 0
    applied: int = 0
    counted: int = 0
    reached: int = 0
    term: int = 0


def taken(dealt: TurnAssignment | None) -> NextTurn:
    """Return a turn, or that there are no more, as it travels."""
    return NextTurn(-1, NO_MORE) if dealt is None else NextTurn(*dealt.turn, *dealt[1:])


class StepRequest(NamedTuple):
    """A worker would begin its next step (ssp)."""

    worker: int
    attempt: int


class StepPermission(NamedTuple):
    """Whether it may; else it must stop."""

    go: bool


class Slow(NamedTuple):
    """A shard's report of the stragglers that others waited for (bsp), and how long."""

    workers: tuple[int, ...]
    seconds: float


class MemoryPressure(NamedTuple):
    """A shard reports that its memory is short; when it is full, it answers no more pushes."""

    message: str
    full: bool


class Save(NamedTuple):
    """A request to write what a shard holds into the version's folder, or that of a pass that may be the best; -1: none."""

    best: int


class PassBegin(NamedTuple):
    """A pass begins: shards count anew what operators count by pass; or it is over: shards do what follows it, once."""

    number: int
    over: bool = False


BEGIN_PASS = Method("begin pass", PassBegin, Acknowledged)
TAKE = Method("take", Take, NextTurn)
STEP = Method("step", StepRequest, StepPermission)
REPORT = Method("report", Report, Terms)
SLOW = Method("slow", Slow, Acknowledged)
PRESSED = Method("pressed", MemoryPressure, Acknowledged)
SAVE = Method("save", Save, SavedRows)


def prepared_of(job: Job) -> Prepared:
    """Return a worker's view of a training."""
    return job.input.with_recipe(recipe_of(job.input.plan, job.input.columns), None, None)


def job_of(prepared: Prepared, draft: Draft, contact: Contact, epoch: int, checkpoint: str, memory_bytes: int | None) -> Job:
    """Return what the tasks of a training need to know."""
    return Job(
        contact=contact,
        xpsql=own_version(),
        input=prepared.input,
        folder=draft.folder,
        tables=draft.manifest.tables,
        epoch=epoch,
        checkpoints=draft.checkpoints.place,
        checkpoint=checkpoint,
        memory_bytes=memory_bytes,
    )


def saved_files(folder: Path, epoch: int) -> VersionFiles:
    """Return where the shards of an epoch write what they hold, so that shards of an earlier epoch cannot spoil it."""
    return VersionFiles(VersionFiles(folder).saved / str(epoch))


def own_version() -> str:
    """Return the version of xpsql in this process."""
    import xpsql

    return xpsql.__version__


def check_machine(drivers: str, folder: Path) -> None:
    """Require in a task that its machine has the driver's version of xpsql, and a folder that the driver made.

    Raises:
        TrainingError: it has another one, or none; says which.
    """
    if own_version() != drivers:
        raise TrainingError(
            f"The executors have xpsql {own_version()}, the driver {drivers}. Install one version everywhere, or start with "
            "`xpsql submit`, which sends the driver's."
        )
    if not folder.is_dir():
        raise TrainingError(unshared(folder, socket.gethostname()))


def own_host(coordinator: Address) -> str:
    """Return the number under which other machines reach this one: that of the interface which leads to the driver."""
    failed: OSError | None = None
    for family, kind, _, _, address in socket.getaddrinfo(coordinator.host, coordinator.port, type=socket.SOCK_DGRAM):
        try:
            with socket.socket(family, kind) as probe:
                probe.connect(address)
                return str(probe.getsockname()[0])
        except OSError as error:  # no way by this family; another one may have
            failed = error
    raise failed or OSError(f"{coordinator.host} has no address")
