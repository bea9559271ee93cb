"""Columns of requests that a service fills from histories: a request names the user, and the service adds the user's last
events."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ..errors import StatementError, XpsqlError
from ..histories.age import age_in_units
from ..histories.image import HistoryImage, as_numbers
from ..histories.stored import IMAGE
from .inputs import Input, by_lower_name
from .refusal import RequestError
from .served import POLL_SECONDS, STOP_SECONDS, Report

if TYPE_CHECKING:
    from ..histories.stored import HistoryVersion, StoredHistories
    from .features_lookup import FeatureLookup

FORM = re.compile(r"(?:(\w+)=)?(\w+)\.(\w+)")


class FilledColumn:
    """A column of requests that is filled from the newest version of a history.

    Args:
        text: `column=history.value`, or `history.value` where the column has the value's name.

    Raises:
        StatementError, ModelError: it has another form, or there is no such history or value.
    """

    def __init__(self, histories: StoredHistories, text: str) -> None:
        match = FORM.fullmatch(text)
        if match is None:
            raise StatementError(f"--history takes column=history.value, got {text!r}.")
        self._histories, self._definition = histories, histories.definition(match[2])
        names = by_lower_name(self._definition.values)
        if match[3].lower() not in names:
            raise StatementError(f"The history {match[2]} has the values {', '.join(self._definition.values)}, got {match[3]}.")
        self.value = names[match[3].lower()]
        self.column = (match[1] or match[3]).lower()
        version = histories.newest(self._definition.name)
        if version is None:
            raise StatementError(f"The history {match[2]} has no version. REFRESH HISTORY {match[2]} makes one.")
        self._take(version)

    def refresh(self) -> None:
        """Switch to the newest version, if there is one; running requests keep theirs."""
        version = self._histories.newest(self._definition.name)
        if version is not None and version.number != self.number:
            self._take(version)

    def _take(self, version: HistoryVersion) -> None:
        image = HistoryImage(version.folder / IMAGE, self._definition.order, None, version.sums)
        within = self._definition.within
        image.within = None if within is None else age_in_units(within, image.time_type)
        self._image, self.number = image, version.number

    def filled(self, given: Mapping[str, Any], shared: Mapping[str, Any]) -> dict[str, Any]:
        """Return values of a row, or of what all rows have in common, with this column where it lacks it and has the user.

        Args:
            shared: where else the time of the request may be.

        Raises:
            RequestError: the user or the time does not fit the history's type.
        """
        own = by_lower_name(given)
        user = own.get(self._definition.partition.lower())
        if user is None or self.column in own:
            return dict(given)
        image = self._image
        key = Input(self._definition.partition, None, image.user_type).array([given[user]])
        return {**given, self.column: image.last(key, self._before(given, shared, image), self.value).to_pylist()}

    def _before(self, given: Mapping[str, Any], shared: Mapping[str, Any], image: HistoryImage) -> int | None:
        """Return the time of a request as a number: the given one, or now; None where times are numbers and none is given."""
        name = self._definition.order
        values = {**{key.lower(): value for key, value in shared.items()}, **{key.lower(): v for key, v in given.items()}}
        if name.lower() in values:
            time = Input(name, None, image.time_type).array([values[name.lower()]])
            if time.null_count:
                return -(2**62)  # nothing is earlier
            return int(as_numbers(time)[0].as_py())
        if pa.types.is_integer(image.time_type):
            if self._definition.within is not None:
                raise RequestError(400, f"The request lacks {name}, which says how old an event may be.")
            return None
        now = pa.array([datetime.now(UTC)], pa.timestamp("us", tz="UTC"))
        return int(as_numbers(now.cast(image.time_type))[0].as_py())


class FilledColumns:
    """The columns that a service fills; a thread follows the warehouse.

    Args:
        texts: see FilledColumn.
        tables: feature tables, which are read after the histories.
        report: called with each problem, a line of text.
    """

    def __init__(
        self, histories: StoredHistories, texts: Sequence[str], report: Report, tables: Sequence[FeatureLookup] = ()
    ) -> None:
        self.columns, self.tables = [FilledColumn(histories, text) for text in texts], tables
        self._report = report
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="xpsql serve: histories", daemon=True)

    def start(self) -> None:
        """Follow the warehouse from now on."""
        if self.columns or self.tables:
            self._thread.start()

    def stop(self) -> None:
        """Follow it no more."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(STOP_SECONDS)

    def filled(self, rows: list[dict[str, Any]], context: dict[str, Any]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """Return the rows of a request, and what they have in common, with the columns that they lack."""
        for column in self.columns:
            if column.column in by_lower_name(context):
                continue
            if not rows or column.column not in by_lower_name(rows[0]):  # else it would be in both
                context = column.filled(context, {})
            if column.column not in context:
                rows = [column.filled(row, context) for row in rows]
        for table in self.tables:
            rows, context = table.filled(rows, context)
        return rows, context

    def _follow(self) -> None:
        failed = ""
        while not self._stopping.wait(POLL_SECONDS):
            try:
                for column in self.columns:
                    column.refresh()
                for table in self.tables:
                    table.refresh()
                failed = ""
            except (XpsqlError, OSError) as error:
                if str(error) != failed:
                    failed = str(error)
                    self._report(f"Still serving the histories and features that are in memory: {error}")
