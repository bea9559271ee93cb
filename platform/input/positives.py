"""Rows of what was taken: those whose label says so, each with the features of its item."""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...warehouse.entries import Split
from ..engines.base import Bounds, Scan
from ..engines.repeats import expanded
from ..errors import StatementError, Subject, suggestion
from .encoder import require
from .items import ItemFile, check_schema
from .numbers import floats
from .roles import LABEL
from .slot_types import require_number
from .source import row_of
from .splits import CHUNK_ROWS, OF_NUMBERS

MISSING = Subject("WITH", option="missing_items")


class Taking(NamedTuple):
    """What a statement says of rows before they are learned from.

    Attributes:
        label: a row says that something was taken where this column is 1, others are left out; None: every row does.
        items: where the features of items are; None: in the rows.
    """

    label: str | None
    items: ItemFile | None

    @property
    def whose(self) -> str:
        """The condition of a row that is taken, as it follows "rows": " whose click is 1"."""
        wanted = [] if self.label is None else [f"{self.label} is 1"]
        return f" whose {' and whose '.join([*wanted, *(['item ITEMS has'] if self.items is not None else [])])}"

    def schema(self, log: pa.Schema) -> pa.Schema:
        """Return the columns of rows that are taken.

        Raises:
            StatementError: the log lacks the label, or see check_schema.
        """
        fields = list(log)
        if self.label is not None:
            own = {field.name.lower(): field for field in log}
            label = own.get(self.label.lower())
            if label is None:
                message = f"{LABEL} names {self.label!r}, which the query does not return.{suggestion(self.label, log.names)}"
                raise StatementError(message, subject=LABEL)
            require_number(label, LABEL)
            fields.remove(label)
        if self.items is not None:
            check_schema(pa.schema(fields), self.items.schema)
            fields += list(self.items.schema)[1:]
        return pa.schema(fields)

    def rows(self, scan: Scan, drops: bool = True) -> TakenRows:
        """Return the rows of a scan that are taken.

        Args:
            drops: some may be left out.
        """
        return TakenRows(scan, self.schema(scan.schema), self.label, self.items, drops)


class Lacking(NamedTuple):
    """Rows whose item is none of those that a statement gives, and one such item."""

    rows: int
    item: object


@dataclass(frozen=True)
class TakenRows:
    """Rows of a scan that are taken; see Scan.

    Attributes:
        scan: gives all rows.
        drops: some rows are left out.
    """

    scan: Scan
    schema: pa.Schema
    label: str | None
    items: ItemFile | None
    drops: bool

    @property
    def staged(self) -> bool:
        return self.scan.staged

    @property
    def bounded(self) -> bool:
        return self.scan.bounded

    @property
    def exact(self) -> bool:
        """Whether a split gives as many rows as it says."""
        return self.scan.exact and not self.drops

    @property
    def most_counted(self) -> int:
        return self.scan.most_counted

    def splits(self) -> list[Split]:
        """List the splits of the scan."""
        return self.scan.splits()

    def read(self, split: Split, wanted: Sequence[str], rows: int) -> Generator[pa.Table, None, None]:
        """Read a split, without rows that are not taken.

        Raises:
            DataError: a label is neither 0 nor 1.
        """
        own = {name.lower() for name in self.scan.schema.names}
        read = {name.lower(): name for name in wanted if name.lower() in own}
        for name in (self.label, None if self.items is None else self.items.item):
            if name is not None:
                read.setdefault(name.lower(), name)
        first = 0
        for table in self.scan.read(split, list(read.values()), rows):
            yield self._taken(expanded(table), read, wanted, functools.partial(row_of, self.scan, split, first))
            first += table.num_rows

    def lacking(self, splits: Sequence[Split]) -> Lacking:
        """Return how many rows there are of items that ITEMS lacks, which takes a pass over the column of items."""
        assert self.items is not None
        count, one, places = 0, None, self.items.using(lambda items: items.places)
        taken = replace(self, items=None)
        for split in splits:
            for table in taken.read(split, [self.items.item], CHUNK_ROWS):
                column = table.column(0)
                unknown = places(column) < 0
                if unknown.any():
                    one = column[int(np.argmax(unknown))].as_py() if not count else one
                    count += int(unknown.sum())
        return Lacking(count, one)

    def check(self, split: Split) -> None:
        """Refuse a split that changed."""
        self.scan.check(split)

    def bounds(self, splits: Sequence[Split], column: str) -> Iterator[Bounds]:
        """Yield the statistics of a column; nothing for columns of items, nor where rows are left out."""
        if not self.drops and column.lower() in {name.lower() for name in self.scan.schema.names}:
            yield from self.scan.bounds(splits, column)

    def describe(self) -> str:
        """Return how the scan is read."""
        found = self.scan.describe()
        return found if self.items is None else f"{found}; features of items looked up in ITEMS"

    def entry(self) -> dict[str, Any]:
        """Return what a manifest keeps of the scan."""
        return self.scan.entry()

    def over(self, splits: Sequence[Split]) -> TakenRows:
        """Return the same over splits that were listed before."""
        return replace(self, scan=self.scan.over(splits))

    def _taken(self, table: pa.Table, read: dict[str, str], wanted: Sequence[str], where: Callable[[int], str]) -> pa.Table:
        if self.label is not None:
            table = table.filter(pa.array(positive(table.column(read[self.label.lower()]), self.label, where)))
        columns = {name: table.column(own) for name, own in read.items()}
        if self.items is not None:
            known = columns[self.items.item.lower()]
            places = self.items.using(lambda items: items.places(known))
            if not (there := places >= 0).all():
                places, mask = places[there], pa.array(there)
                columns = {name: column.filter(mask) for name, column in columns.items()}
            asked = [name for name in self.items.schema.names if name.lower() in {n.lower() for n in wanted} - columns.keys()]
            columns |= self.items.using(lambda items: items.taken(asked, places))
        return pa.table([columns[name.lower()] for name in wanted], names=list(wanted))


def positive(column: pa.ChunkedArray, name: str, where: Callable[[int], str]) -> NDArray[np.bool_]:
    """Return which labels are 1.

    Raises:
        DataError: one is neither 0 nor 1.
    """
    values = floats(column)
    require((values == 0) | (values == 1), values, f"{LABEL} {name} must be 0 or 1", where, OF_NUMBERS)
    found: NDArray[np.bool_] = values == 1
    return found
