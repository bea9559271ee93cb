"""What backwards push: at once, at the end of a step, and for all ranks of a torch.distributed group together."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from ..errors import OptionError, StatementError, TrainingError
from .client import ParameterServer
from .server_table import ServerTable, TakesUpdates
from .updates import RowsPulled, RowUpdate, joined

Updates = dict[str, list[RowUpdate]]


class Backward:
    """What the backward that runs now has come to, by table."""

    def __init__(self) -> None:
        self.updates: Updates = {}
        self.queued = False


BACKWARDS: weakref.WeakKeyDictionary[TakesUpdates, Backward] = weakref.WeakKeyDictionary()
STEPS: weakref.WeakKeyDictionary[TakesUpdates, step] = weakref.WeakKeyDictionary()


def note(table: ServerTable, found: RowsPulled, slots: int | NDArray[np.uint16], gradient: Any) -> None:
    """Note the gradient of rows; they go when the backward has ended, each row once."""
    size = len(found.keys)
    number = np.empty(size, np.uint16)
    number[found.positions] = slots
    counts = np.bincount(found.positions, minlength=size).astype(np.uint32)
    gradients = gradient.detach().to(torch.float32).numpy().copy()
    update = RowUpdate(found.keys, gradients, number, counts, np.zeros(size, np.uint32))
    server = table.server
    backward = BACKWARDS.setdefault(server, Backward())
    backward.updates.setdefault(table.name, []).append(update)
    if not backward.queued:
        backward.queued = True
        torch.autograd.Variable._execution_engine.queue_callback(lambda: end_backward(server))


def end_backward(server: TakesUpdates) -> None:
    """Push what a backward has come to, or leave it to the step that is open."""
    updates = BACKWARDS.pop(server).updates
    if (open_step := STEPS.get(server)) is not None:
        for name, parts in updates.items():
            open_step.updates.setdefault(name, []).extend(parts)
    else:
        server.push_kept(over_ranks(server, updates, "mean"))


class step:
    """One step of several backwards, as a context manager: their gradients are added up and pushed at its end, once.

    with xpsql.torch.step(ps, optimizer, scaler):
        for part in parts:
            scaler.scale(loss(part) / len(parts)).backward()
        scaler.step(optimizer)
    scaler.update()

    By an error nothing is pushed.

    Args:
        server: whose rows.
        optimizer: of the dense part; where it makes no step in the block, nothing is pushed.
        scaler: a GradScaler by which losses are scaled: gradients are divided by it, and where one is infinite or NaN nothing
            is pushed.
        reduce: among the processes of a torch.distributed group, whose gradients are added up first: "mean" as DDP has it for
            dense gradients, or "sum".

    Attributes:
        pushed: whether it pushed; None until it ends.

    Raises:
        OptionError: a scaler without its optimizer, or another `reduce`.
        StatementError: where it begins: another step of the same server is open.
    """

    def __init__(self, server: ParameterServer, optimizer: Any = None, scaler: Any = None, reduce: str = "mean") -> None:
        if scaler is not None and optimizer is None:
            raise OptionError(
                "xpsql.torch.step with a scaler needs the optimizer that it steps, too: a skipped step pushes nothing."
            )
        if reduce not in ("mean", "sum"):
            raise OptionError(f"xpsql.torch.step has reduce = 'mean' or 'sum', got {reduce!r}.")
        self.updates: Updates = {}
        self.pushed: bool | None = None
        self._server, self._optimizer, self._scaler, self._reduce = server, optimizer, scaler, reduce
        self._stepped = optimizer is None

    def __enter__(self) -> Self:
        if self._server in STEPS:
            raise StatementError(f"A step of {self._server!r} is open already; end it first.")
        self.updates, self.pushed = {}, None
        self._scale = 1.0 if self._scaler is None else float(self._scaler.get_scale())
        if self._optimizer is not None:
            self._stepped = False
            self._hook = self._optimizer.register_step_post_hook(self._made)
        STEPS[self._server] = self
        return self

    def _made(self, *_: object) -> None:
        self._stepped = True

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        del STEPS[self._server]
        if self._optimizer is not None:
            self._hook.remove()
        if error is not None:
            return
        updates = {name: [scaled(part, self._scale) for part in parts] for name, parts in self.updates.items()}
        good = self._stepped and (self._scaler is None or all(finite(parts) for parts in updates.values()))
        together = over_ranks(self._server, updates if good else {}, self._reduce, good)
        self.pushed = together is not None
        self._server.push_kept(together or {})


def scaled(update: RowUpdate, scale: float) -> RowUpdate:
    """Return an update whose gradients were multiplied by a scale."""
    return update if scale == 1.0 else update._replace(gradients=update.gradients * np.float32(1.0 / scale))


def finite(updates: list[RowUpdate]) -> bool:
    return all(bool(np.isfinite(one.gradients).all()) for one in updates)


def over_ranks(server: TakesUpdates, updates: Updates, reduce: str, good: bool = True) -> Any:
    """Return the updates of all ranks of a torch.distributed group, added up, at the first rank, and none at others; where
    there is no group, these. None where a rank's are not good.

    Raises:
        TrainingError: ranks have other tables.
    """
    own = {name: one for name, parts in updates.items() if (one := joined(parts)) is not None}
    distributed = torch.distributed
    if not (distributed.is_available() and distributed.is_initialized() and distributed.get_world_size() > 1):
        return {name: [one] for name, one in own.items()} if good else None
    world, rank = distributed.get_world_size(), distributed.get_rank()
    parts = gathered(server, own if good else None, world)
    if any(part is None for part in parts):
        return None
    if rank:
        return {}
    factor = np.float32(1 / world if reduce == "mean" else 1)
    together: Updates = {}
    for name in server.tables:
        if (one := joined([part[name] for part in parts if part is not None and name in part])) is not None:
            together[name] = [one._replace(gradients=one.gradients * factor)]
    return together


def gathered(server: TakesUpdates, own: dict[str, RowUpdate] | None, world: int) -> list[dict[str, RowUpdate] | None]:
    """Return the updates of every rank; None of one whose are not good. They travel as bytes of arrays.

    Raises:
        TrainingError: ranks have other tables.
    """
    dims = [server[name].dim for name in server.tables]
    sizes = [len(own[name].keys) if own is not None and name in own else 0 for name in server.tables]
    heads = every(np.array([len(dims), sum(dims), own is not None], np.int64), world)
    if any((head[:2] != heads[0][:2]).any() for head in heads):
        raise TrainingError(f"The ranks learn together, and have connected to servers of other tables than {server!r}.")
    counts = every(np.array(sizes, np.int64), world)
    lengths = [sum(n * bytes_of(dim) for n, dim in zip(one.tolist(), dims, strict=True)) for one in counts]
    whole = np.zeros(max(lengths), np.uint8)
    packed = [packed_of(own[name]) for name in server.tables if own is not None and name in own]
    flat = np.concatenate([np.empty(0, np.uint8), *packed])
    whole[: len(flat)] = flat
    bodies = every(whole, world) if len(whole) else [whole] * world
    return [
        unpacked(body, dict(zip(server.tables, zip(one.tolist(), dims, strict=True), strict=True))) if head[2] else None
        for head, one, body in zip(heads, counts, bodies, strict=True)
    ]


def every(array: NDArray[Any], world: int) -> list[NDArray[Any]]:
    """Return the array of each rank, all of one shape."""
    mine = torch.from_numpy(array)
    found = [torch.empty_like(mine) for _ in range(world)]
    torch.distributed.all_gather(found, mine)
    return [one.numpy() for one in found]


def bytes_of(dim: int) -> int:
    """Return the bytes of a key's part of an update."""
    return 8 + 4 * dim + 2 + 4 + 4


def packed_of(update: RowUpdate) -> NDArray[np.uint8]:
    """Return an update as bytes."""
    return np.concatenate([np.ascontiguousarray(one).reshape(-1).view(np.uint8) for one in update])


def unpacked(body: NDArray[np.uint8], sizes: Mapping[str, tuple[int, int]]) -> dict[str, RowUpdate]:
    """Return updates of bytes.

    Args:
        sizes: of each table the keys and the floats of a row.
    """
    found, at = {}, 0
    for name, (count, dim) in sizes.items():
        parts = []
        for width in (8, 4 * dim, 2, 4, 4):
            parts.append(body[at : at + count * width].copy())
            at += count * width
        keys, gradients, slots, counts, clicks = parts
        rows = gradients.view(np.float32).reshape(count, dim)
        if count:
            numbers = counts.view(np.uint32), clicks.view(np.uint32)
            found[name] = RowUpdate(keys.view(np.uint64), rows, slots.view(np.uint16), *numbers)
    return found
