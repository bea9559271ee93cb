"""A table of a parameter server, as a program sees it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn, Protocol

import numpy as np
import pyarrow as pa

from .. import parts
from ..errors import StatementError, suggestion
from ..ps._native import unique
from ..ps.compiled.aligned import empty
from ..ps.compiled.ladder import Ladder
from ..ps.keyed import KeyedRequest, row_table_of
from ..ps.keys import Keys
from .declared import DeclaredTable, DeclaredTables
from .functions import FoldedState, FoldRequest, fold_of, fold_result, request_of, used
from .updates import RowsPulled, RowUpdate, added, refuse_pickle
from .values import Floats, arrays_of, counts_of, gradients_of, keys_of, summed_by_key


class TakesUpdates(Protocol):
    """What a table pulls from and pushes to: a client of a parameter server."""

    declared: DeclaredTables

    @property
    def tables(self) -> tuple[str, ...]: ...

    def __getitem__(self, table: str) -> ServerTable: ...
    def pull(self, table: str, keys: Keys, size: int) -> Floats: ...
    def fold_rows(self, request: KeyedRequest) -> Floats: ...
    def fold(self, table: str, request: FoldRequest) -> list[FoldedState]: ...
    def update(self, table: str, update: RowUpdate) -> None: ...
    def push_kept(self, kept: Mapping[str, list[RowUpdate]]) -> None: ...


class ServerTable:
    """A table of a parameter server.

    Attributes:
        name, dim: of the table; slots: whose values have rows in it.
    """

    def __init__(self, server: TakesUpdates, name: str, declared: DeclaredTable) -> None:
        self.server, self.name, self.dim = server, name, declared.dim
        self.slots = declared.slots_of(name)
        self._numbers = server.declared.numbers
        self._ladder = Ladder()

    def slot(self, slot: str | None) -> str:
        """Return a slot of the table: the one that it has, where none is named.

        Raises:
            StatementError: it has no such slot, or several and none is named.
        """
        if slot is None and len(self.slots) == 1:
            return self.slots[0]
        if slot not in self.slots:
            got = "none was named" if slot is None else f"got {slot!r}"
            raise StatementError(
                f"Table {self.name} has the slots {', '.join(self.slots)}; {got}.{suggestion(slot or '', self.slots)}"
            )
        return str(slot)

    def keys(self, values: Any, slot: str | None = None, raw: bool = False) -> Keys:
        """Return the keys of values, uint64[n], as SQL's feature_key(slot, value) does; with `raw`, values are ready-made ids.

        Raises:
            StatementError: the table has no such slot.
            DataError: values of another type.
        """
        return keys_of(values, self.slot(slot), raw)

    def pull(self, values: Any, slot: str | None = None, raw: bool = False) -> Floats:
        """Return the rows of values, float32[n, dim]; creates none. A value without a row reads as a new row begins.

        Args:
            values: integers or strings: NumPy, Arrow, a tensor of torch, or a list.
            slot: of the values; needed where the table has several.
            raw: values are ready-made ids of 64 bits.

        Raises:
            StatementError, DataError: as of keys.
            LostError: a shard is lost.
        """
        found = self.pulled(self.keys(values, slot, raw))
        return found.rows[found.positions]

    def push(
        self,
        values: Any,
        gradients: Any,
        counts: Any = None,
        clicks: Any = None,
        slot: str | None = None,
        raw: bool = False,
    ) -> None:
        """Send gradients through the table's operators; those of a value that comes twice are added up first.

        Args:
            values, slot, raw: as of pull.
            gradients: float32[n, dim]: NumPy, Arrow (FixedSizeList) or a tensor of torch.
            counts: occurrences that each stands for; None: one.
            clicks: those of them in examples with a positive label; None: none.

        Raises:
            StatementError, DataError: as of keys; gradients or counts of another shape.
            LostError: a shard is lost.
        """
        keys = self.keys(values, slot, raw)
        given = gradients_of(gradients, len(keys), self.dim, self.name)
        distinct, positions, summed = summed_by_key(keys, given)
        number = np.full(len(distinct), self._numbers[self.slot(slot)], np.uint16)
        seen = added(counts_of(counts, len(keys), "counts"), positions, len(distinct), 1)
        clicked = added(counts_of(clicks, len(keys), "clicks"), positions, len(distinct), 0)
        self.server.update(self.name, RowUpdate(distinct, summed, number, seen, clicked))

    def fold(self, fold: str, /, **options: object) -> pa.Table:
        """Return what a fold of ML.FOLD says of all rows, computed where they are: ps["item"].fold("norm", by="slot").

        Raises:
            StatementError: there is no such fold, or it does not take these options.
            LostError: a shard is lost.
        """
        request = request_of(used(parts.FOLD, fold, options))
        made = fold_of(self.server.declared, self.name, request)
        return fold_result(made, request.fold, self.server.fold(self.name, request))

    def fold_rows(
        self,
        values: Any,
        reading: str,
        arrays: Mapping[str, Any] | None = None,
        slot: str | None = None,
        raw: bool = False,
        **options: object,
    ) -> Floats:
        """Return a few numbers of the row of each value, float32[n] or float32[n, width], computed where the rows are: no row
        travels, as it does with a pull.

        Args:
            values, slot, raw: as of pull.
            reading: "dot", "cosine", "norm", "argmax", or one that a package offers.
            arrays: what it takes beside: {"to": vector} of dot and cosine.
            options: of the reading: ps["item"].fold_rows(values, "norm", of="max").

        Raises:
            StatementError, DataError: as of keys; no such reading, or arrays of another shape.
            LostError: a shard is lost.
        """
        use = used(parts.READING, reading, options)
        part = parts.READING.find(use.name, None)
        made = part.make(parts.READING.options_of(use), row_table_of(self.server.declared.programs(self.name)))
        given = arrays_of(arrays or {}, made.arrays, f"{use.name} of table {self.name}")
        distinct, positions = unique(self.keys(values, slot, raw))
        if not len(distinct):
            return np.empty((0, made.width) if made.width > 1 else 0, np.float32)
        request = KeyedRequest(distinct, self.name, use.name, request_of(use).options, given)
        found = self.server.fold_rows(request)[positions]
        return found if made.width > 1 else found[:, 0]

    def pulled(self, keys: Keys) -> RowsPulled:
        """Return the rows of keys, which may repeat, each once."""
        distinct, positions = unique(keys)
        if not len(distinct):
            return RowsPulled(distinct, positions, np.zeros((0, self.dim), np.float32))
        rows = self.server.pull(self.name, distinct, self._ladder.size(len(distinct)))
        return RowsPulled(distinct, positions, rows[: len(distinct)])

    def number(self, slot: str | None) -> int:
        """Return the number of a slot in rows."""
        return self._numbers[self.slot(slot)]

    def padded(self, update: RowUpdate) -> Floats:
        """Return gradients padded as programs want them."""
        n = len(update.keys)
        whole = empty((self._ladder.size(n), self.dim), np.float32)
        whole[:n], whole[n:] = update.gradients, 0
        return whole

    def __repr__(self) -> str:
        return f"<table {self.name} of {self.server!r}: rows of {self.dim} floats, slots {', '.join(self.slots)}>"

    def __reduce__(self) -> NoReturn:
        refuse_pickle(self)
