"""A table whose rows are in the memory of a device: its pulls and pushes are one program each, and weights and gradients do not
leave the device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from ..errors import TrainingError
from .compiled.device_programs import device_programs, packed
from .compiled.row_programs import RowPrograms
from .messages import Counts, Floats, Gate, Keys, Mask, Read, Touched
from .rows.base import ColumnTypes
from .rows.device import DeviceRows
from .rows.device_memory import FIRST_ROWS
from .table import Table, drawn, refused


class DeviceTable(Table):
    """A table on a device; its rows are neither admitted nor end.

    Args:
        programs: of its rows.
        device: JAX's.
        most_bytes: granted on the device; None: no limit.
        first: the shard's first table; None: this is it.
        rows: that there is room for at first.
    """

    def __init__(
        self,
        programs: RowPrograms,
        device: jax.Device,
        most_bytes: int | None,
        first: Table | None,
        rows: int = FIRST_ROWS,
    ) -> None:
        def new_rows(columns: ColumnTypes) -> DeviceRows:
            return DeviceRows(columns, device, most_bytes, rows)

        super().__init__(programs, new_rows, first)
        assert isinstance(self.store, DeviceRows)
        self._rows: DeviceRows = self.store
        self._programs = device_programs(programs)

    def pull(self, keys: Keys, size: int, now: int, gone: Mask | None = None) -> Read:
        """See Table; weights are arrays of the device."""
        with self.lock, self._rows.guard:
            self._bring(keys)
            pulled = self._programs.pull(self._rows.held, packed(size, keys, self._numbers_of(keys, now)))
        updates = np.asarray(pulled.updates)[: len(keys)] if self.programs.needs_updates else None
        weights: dict[str, Any] = pulled.weights
        offered: Any = pulled.offered
        return Read(weights, updates, offered, gone)

    def push(
        self,
        touched: Touched,
        seen: Counts | None,
        pulled: Mapping[str, Floats],
        gradients: Mapping[str, Floats],
        now: int,
        gate: Gate | None = None,
    ) -> tuple[dict[str, float], Gate | None]:
        """See Table; weights and gradients may be arrays of the device."""
        keys, size = touched.keys, self._size(gradients)
        with self.lock, self._rows.guard:
            self._bring(keys)
            self._rows.changing(keys)
            program = self._programs.push if self.watch is None else self._programs.watched_push
            numbers = {**self._numbers_of(keys, now), **{name[1:]: of for name, of in drawn(touched.batch).items()}}
            numbers["pushed"] = touched.examples
            given = packed(size, keys, numbers, touched), None if seen is None else longer(seen, size)
            held, done = program(self._rows.held, *given, self.programs.brought(pulled, gradients))
            self._rows.pushed(held, done.tally, keys, done.left, done.words, done.floats)
            if done.failed is not None and (row := int(done.failed)) >= 0:
                raise refused(touched, row)
        return self._report(done), None

    def _bring(self, keys: Keys) -> None:
        """Have the rows of keys on the device.

        Raises:
            TrainingError: it has not memory for so many at once.
        """
        if not self._rows.bring(keys):
            raise TrainingError(
                f"A batch has {len(keys):,} features, more than the memory granted on the device holds rows of. Lower "
                "batch_size, or leave rows_on out."
            )

    def _numbers_of(self, keys: Keys, now: int) -> dict[str, float]:
        """Return the numbers of a call."""
        tally = self._rows.tally
        counted = {f"tally_{name}": count for name, count in tally._asdict().items()}
        of_all = {"base_rate": self.base_rate, "examples": self.examples, "pushed": 0, "rate": self.rate}
        of_all |= {"pass": 0, "split": 0, "batch": 0}
        return {"rows": len(keys), "now": now, "since": self.since, "clock": self._rows.clock, **counted, **of_all}


def longer(counts: Counts, size: int) -> Counts:
    """Return counts [n] as [size], zeros after the last."""
    whole = np.zeros(size, np.uint32)
    whole[: len(counts)] = counts[:size]
    return whole
