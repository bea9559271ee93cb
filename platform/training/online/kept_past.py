"""What layers have read of users' past events, kept between the requests of a service: keys and values."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from hashlib import blake2b
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from ....algorithms.base import Inputs, Parameters
from ....algorithms.blocks.base import replaced
from ....algorithms.blocks.events import EVENTS, Events, Prefix, States
from ...input.batches import SHORTEST, Batch
from .step import inputs_of

MOST_BYTES = 1 << 27
FEW = 8
"""Fewer events are read anew."""


class KeptPast:
    """Keeps the states of past events, those of the users who were asked for last. Threads may share it.

    Args:
        states: see Algorithm.
    """

    def __init__(self, states: Callable[[Parameters, Inputs], States]) -> None:
        self._states = jax.jit(states)
        self._kept: OrderedDict[bytes, States] = OrderedDict()
        self._lock, self._bytes = threading.Lock(), 0

    def shortened(self, batch: Batch, parameters: Mapping[str, Any]) -> Batch:
        """Return the same batch, whose events before the last moment are read already; as it is where it asks for several users
        or moments, or little has been before.

        Events of the last moment are read with each request, as what layers make of them depends on how long ago they are.
        """
        (events,) = batch.block(EVENTS)
        first = start_of_last(events, batch.examples)
        if first < FEW:
            return batch
        known = self._of(batch, events, first, parameters)
        count, most = int(np.asarray(events.mask).sum()), events.mask.shape[1] // 2
        cells = SHORTEST
        while cells < count - first:
            cells *= 4
        rest = part(events, first, count, cells, len(batch.keys))
        seconds, there = np.zeros((2, 1, most), np.int32)
        seconds[:, :first], there[:, :first] = events.seconds[:, :first], 1
        own, before = (np.asarray(one) - np.int32(first) for one in (events.own, events.before))
        own[batch.examples :] = cells
        arrays: dict[str, Any] = {"seconds": seconds, "mask": there.astype(np.bool_), "size": np.int32(first)}
        lines: dict[str, Any] = {"own": own, "before": before, "prefix": Prefix(known, **arrays)}
        return batch._replace(blocks=replaced(batch.blocks, EVENTS, [rest._replace(**lines)]))

    def _of(self, batch: Batch, events: Events, count: int, parameters: Mapping[str, Any]) -> States:
        keys = np.append(batch.keys, np.uint64(0))[np.asarray(events.rows)[:, 0, :count]]
        times = np.stack([np.asarray(one)[0, :count] for one in (events.seconds, events.until)])
        name = blake2b(keys.tobytes() + times.tobytes(), digest_size=16).digest()
        with self._lock:
            if (known := self._kept.get(name)) is not None:
                self._kept.move_to_end(name)
                return known
        most = events.mask.shape[1] // 2
        past: Any = part(events, 0, count, most, len(batch.keys))
        alone = batch._replace(blocks=replaced(batch.blocks, EVENTS, [past]))
        dense = np.zeros((len(batch.weight), len(batch.dense)), np.float32)
        found: States = self._states(parameters, inputs_of(alone, dense, None))
        with self._lock:
            if name not in self._kept:
                self._kept[name] = found
                self._bytes += size_of(found)
            while self._bytes > MOST_BYTES:
                self._bytes -= size_of(self._kept.popitem(last=False)[1])
        return found


def start_of_last(events: Events, examples: int) -> int:
    """Return the cell with which the last moment begins before that of all examples; 0 where there is none, or they are of
    several users or moments."""
    window, before = np.asarray(events.window), np.asarray(events.before)[:examples]
    if len(window) != 1 or window.max() != 0 or before.min() != before.max() or before[0] < 0:
        return 0
    moment = np.asarray(events.moment)[0, : before[0] + 1]
    return int(np.searchsorted(moment, moment[-1]))


def part(events: Events, first: int, end: int, cells: int, absent: int) -> Events:
    """Return some cells of the only strip, with padding."""

    def cut(values: Any, rest: int) -> NDArray[Any]:
        own = np.asarray(values)
        found = np.full((*own.shape[:-1], cells), rest, own.dtype)
        found[..., : end - first] = own[..., first:end]
        return found

    lines: dict[str, Any] = {name: cut(getattr(events, name), 0) for name in ("mask", "moment", "seconds", "until")}
    rows: Any = cut(events.rows, absent)
    return events._replace(rows=rows, window=cut(events.window, -1), **lines)  # type: ignore[arg-type]


def size_of(states: States) -> int:
    return sum(one.nbytes for pair in states for one in pair)
