"""Where a training computes and keeps its rows: on the CPU, or on a device of JAX."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from ...algorithms.base import Algorithm
from ..engines.tasks import Tasks
from ..errors import StatementError
from ..system import needing
from .clauses.settings import DEVICE, ROWS_ON, Settings
from .compiled import PLUGINS
from .plan import Plan

if TYPE_CHECKING:
    import jax

    from ..ps.compiled.row_programs import RowPrograms
    from ..ps.lifecycle_table import NewTable
    from ..ps.table import Table

GPU = "gpu"
SHARE_OF_ROWS = 0.6
"""Of a device's memory, granted to rows: they take half as much again while they grow."""


class DevicePlace(NamedTuple):
    """Where the steps of a training run.

    Attributes:
        device: JAX's name of its platform.
        rows: its rows are in the device's memory.
        repeats: its programs give the same bits each time, at the price of speed.
    """

    device: str
    rows: bool
    repeats: bool

    @property
    def found(self) -> jax.Device:
        """The device."""
        import jax

        return jax.local_devices(backend=self.device)[0]

    def compiled(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a jitted function for the device, whose products have the precision of float32."""
        import jax

        def exact(*arguments: Any) -> Any:
            with jax.default_matmul_precision("highest"):  # else a GPU rounds factors to ten bits
                return function(*arguments)

        options = {"xla_gpu_deterministic_ops": True} if self.repeats and self.device == GPU else None
        return jax.jit(exact, compiler_options=options)


def place_of(settings: Settings) -> DevicePlace | None:
    """Return where steps run other than on the CPU with rows in this process's store; None: there."""
    device, rows = GPU if settings.device == GPU else "cpu", settings.rows_on == "device"
    return DevicePlace(device, rows, settings.sync == "bsp") if rows or device == GPU else None


def device_tables(place: DevicePlace | None) -> NewTable | None:
    """Return what makes tables on a device; None where rows are in this process's store."""
    if place is None or not place.rows:
        return None
    from ..ps.device_table import DeviceTable  # few trainings need it

    device = place.found
    stats = device.memory_stats()  # which CPUs have none of
    most = None if stats is None else int(stats["bytes_limit"] * SHARE_OF_ROWS)

    def new_table(programs: RowPrograms, first: Table | None) -> Table:
        return DeviceTable(programs, device, most, first)

    return new_table


def dense_device(place: DevicePlace | None) -> jax.Device | None:
    """Return where dense parameters are; None: where JAX puts what names no device."""
    return None if place is None or not place.rows else place.found


def check_device(plan: Plan, algorithm: Algorithm, lives: bool, tasks: Tasks | None) -> None:
    """Refuse a device that is not there, or that a training cannot use.

    Args:
        lives: operators admit or end the rows of all tables.
        tasks: where it would run; None: in this process.

    Raises:
        StatementError: says what is missing, and what to do.
    """
    place, name = place_of(plan.settings), plan.algorithm.name
    if place is None:
        return
    subject = ROWS_ON if place.device != GPU else DEVICE
    if tasks is not None:
        raise StatementError(
            f"{subject} is for trainings in one process, and this one runs on {tasks.words.engine}. Leave it out, or train on "
            "the embedded engine of a machine that has the device.",
            subject=subject,
        )
    if place.device == GPU and algorithm.traits.outside:
        raise StatementError(
            f"{name} calls {algorithm.traits.outside} on the CPU, so that its steps cannot run on a GPU. Leave {DEVICE} out, "
            "or write the network in Flax NNX, Equinox or plain JAX.",
            subject=DEVICE,
        )
    if place.rows:
        check_rows(plan.settings, lives)
    if place.device == GPU:
        check_gpu()


def check_rows(settings: Settings, lives: bool) -> None:
    """Refuse what rows in a device's memory cannot have."""
    if max(settings.workers or 1, settings.shards or 1) > 1:
        message = f"{ROWS_ON} = 'device' takes one worker and one shard. Leave out workers and shards, or rows_on."
        raise StatementError(message, subject=ROWS_ON)
    if lives:
        raise StatementError(
            f"OPERATORS admits or ends rows, which is decided in this machine's memory. Leave such operators or {ROWS_ON} out.",
            subject=ROWS_ON,
        )


def check_gpu() -> None:
    """Refuse a GPU where JAX sees none.

    Raises:
        StatementError: says what is missing.
    """
    import jax

    try:
        jax.local_devices(backend=GPU)
    except RuntimeError as error:
        lacking = missing(error, getattr(jax.config, "jax_platforms", None))
        raise StatementError(f"{DEVICE} = 'gpu' needs a GPU that JAX can use. {lacking}", subject=DEVICE) from error


def missing(error: RuntimeError, chosen: str | None) -> str:
    """Return what a GPU lacks, and the remedy; `chosen`: the platforms that the user lets JAX use, None for all."""
    if chosen:
        return f"JAX_PLATFORMS is {chosen!r}, which leaves none: unset it, or add cuda."
    if importlib.util.find_spec(PLUGINS) is None:
        return needing("On Linux, with NVIDIA's driver, it needs JAX's package for it, which is not installed", "gpu")
    why = str(error).partition(" (set JAX_PLATFORMS")[0].rstrip(".")
    return (
        f"JAX has a package for it, and says: {why}. See that nvidia-smi lists the card, and that its driver is new enough for "
        "the CUDA of that package."
    )
