"""Stored histories as a model reads them: columns that rows lack, and get from the event image by their user and time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from ...warehouse.entries import HistoryEntry
from ..engines.repeats import expanded
from .age import age_in_units
from .event_image import EventImage, Places, opened
from .stored import ALL, HistoryVersion, StoredHistories


@dataclass(frozen=True)
class BoundHistory:
    """A stored history that options of an algorithm name by its fields.

    A row's history is of the user that its column `partition` names: events strictly before its column `order`.

    Attributes:
        entry: as a manifest has it.
        warehouse: where histories are; "" of columns that are read from a manifest alone.
        pinned: read the version that `entry` says; else the newest.
    """

    entry: HistoryEntry
    warehouse: str = ""
    pinned: bool = False

    @property
    def columns(self) -> dict[str, str]:
        """The columns that rows get, and the field that each has."""
        return {f"{self.entry.name}.{name}": name for name in self.entry.fields}

    @property
    def time_column(self) -> str:
        """The column of the events' times, where `fields` has it."""
        return f"{self.entry.name}.{self.entry.order}"

    @property
    def reads(self) -> tuple[str, str]:
        """The columns that rows need."""
        return self.entry.partition, self.entry.order

    def located(self, warehouse: Path) -> BoundHistory:
        """Return the same, of a warehouse."""
        return replace(self, warehouse=str(warehouse.absolute()))

    def pin(self, training: Path) -> None:
        """Keep the version that a training reads until it ends.

        Args:
            training: the folder of the model's version.

        Raises:
            ModelError: it is gone already.
        """
        histories = StoredHistories(Path(self.warehouse))
        histories.pin(self.entry, training)

    def image(self) -> EventImage:
        """Return the image of the version to read.

        Raises:
            ModelError: it is gone or damaged.
        """
        if self.pinned:
            return image_of(StoredHistories(Path(self.warehouse)).version(self.entry))
        return FOLLOWED.newest(self.warehouse, self.entry.name)

    def filled(self, table: pa.Table) -> pa.Table:
        """Return rows with the columns that they lack: lists that are spans of the image, 16 bytes each.

        Raises:
            ModelError: see image.
        """
        own = {name.lower(): name for name in table.column_names}
        missing = {column: name for column, name in self.columns.items() if column.lower() not in own}
        if not missing:
            return table
        image = self.image()
        begin, end = self.spans(image, *(table.select([own[name.lower()]]) for name in self.reads))
        for column, name in missing.items():
            table = table.append_column(column, as_lists(image, name, begin, end))
        return table

    def spans(self, image: EventImage, users: pa.Table, times: pa.Table) -> tuple[Places, Places]:
        """Return where in an image the history of each row is."""
        user = expanded(users).column(0).combine_chunks()
        user = user.combine_chunks() if isinstance(user, pa.ChunkedArray) else user
        if pa.types.is_dictionary(user.type):
            user = pa.DictionaryArray.from_arrays(user.indices, user.dictionary.cast(image.user_type))
        elif user.type != image.user_type:
            user = user.cast(image.user_type)
        before = image.times_of(expanded(times).column(0))
        within = None if self.entry.within is None else age_in_units(self.entry.within, image.time_type)
        return image.spans(user, before, within, self.entry.keep)


class Followed:
    """The newest versions of histories that this process reads; a history is looked at again once its folder has changed."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, str], tuple[int, EventImage]] = {}

    def newest(self, warehouse: str, name: str) -> EventImage:
        """Return the image of the newest version.

        Raises:
            ModelError: there is none, or it is damaged.
        """
        histories = StoredHistories(Path(warehouse))
        changed = histories.changed(name)
        known = self._seen.get((warehouse, name))
        if known is not None and known[0] == changed:
            return known[1]
        image = image_of(histories.current(name))
        self._seen[warehouse, name] = changed, image
        return image


FOLLOWED = Followed()


def image_of(version: HistoryVersion) -> EventImage:
    """Return the event image of a version."""
    start = f"{ALL}/"
    sums = {name.removeprefix(start): text for name, text in (version.sums or {}).items() if name.startswith(start)}
    return opened(version.folder / ALL, tuple(sorted(sums.items())))


def as_lists(image: EventImage, name: str, begin: Places, end: Places) -> pa.Array:
    """Return spans as lists of a field's values, which stay where they are."""
    if name in image.types:
        codes, values = image.field(name)
        found = pa.DictionaryArray.from_arrays(pa.array(codes), values, safe=False)
    else:  # the time
        found = image.moments
    return pa.LargeListViewArray.from_arrays(pa.array(begin), pa.array(end - begin), found)


def filled(table: pa.Table, histories: Sequence[BoundHistory]) -> pa.Table:
    """Return rows with the columns of stored histories that they lack."""
    for history in histories:
        table = history.filled(table)
    return table
