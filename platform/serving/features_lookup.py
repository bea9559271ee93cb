"""Columns of requests that a service fills from feature tables: a request names the key, and the service adds the features."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ..errors import StatementError
from ..feature_tables.kept_features import IMAGE
from ..histories.image import HistoryImage, as_numbers
from .inputs import Input, by_lower_name
from .metrics import escaped, head

if TYPE_CHECKING:
    from ..feature_tables.kept_features import FeaturesVersion, StoredFeatures

MOST_REMEMBERED = 1 << 14
"""Keys of a version whose features are kept as Python has them: users ask again, and ads are candidates of many."""
Row = dict[str, Any]


class FeatureLookup:
    """The newest version of a feature table; threads may share it.

    Args:
        name: of the table.

    Attributes:
        found, missing: how many keys were looked up.
        version: that is read.

    Raises:
        StatementError, ModelError: there is no such table, or it has no version.
    """

    def __init__(self, features: StoredFeatures, name: str) -> None:
        self._features, self.name = features, features.definition(name).name
        self.found = self.missing = 0
        self._lock = threading.Lock()
        version = features.newest(self.name)
        if version is None:
            raise StatementError(f"The feature table {name} has no version. REFRESH FEATURES {name} makes one.")
        self._take(version)

    def refresh(self) -> None:
        """Switch to the newest version, if there is one; running requests keep theirs."""
        version = self._features.newest(self.name)
        if version is not None and version.folder != self.version.folder:
            self._take(version)

    def _take(self, version: FeaturesVersion) -> None:
        definition = version.definition
        self._read = MappedFeatures(
            version, HistoryImage(version.folder / IMAGE, definition.time, None, version.sums, "FEATURES")
        )
        self.version = version

    def filled(self, rows: list[Row], context: Row) -> tuple[list[Row], Row]:
        """Return the rows of a request, and what they have in common, with the features that they lack.

        Raises:
            RequestError: a key does not fit the table's type.
        """
        read, shared = self._read, by_lower_name(context)
        if read.key not in shared:
            return [self._row(row, shared, read) for row in rows], context
        own = by_lower_name(rows[0]) if rows else {}
        lacking = [name for name in read.names if name not in shared and name not in own]
        return rows, self._added(context, context[shared[read.key]], lacking, read)

    def _row(self, row: Row, shared: dict[str, str], read: MappedFeatures) -> Row:
        own = by_lower_name(row)
        if read.key not in own:
            return row
        return self._added(
            row, row[own[read.key]], [name for name in read.names if name not in shared and name not in own], read
        )

    def _added(self, given: Row, key: Any, lacking: Sequence[str], read: MappedFeatures) -> Row:
        if not lacking:
            return given
        values = read.values(key)
        with self._lock:
            self.found += values is not None
            self.missing += values is None
        added = {read.names[name]: None if values is None else values[name] for name in lacking}
        return {**given, **added}


class MappedFeatures:
    """A version as requests read it.

    Attributes:
        key: the column of the key, in lower case.
        names: the features in lower case, and as the table has them.
    """

    def __init__(self, version: FeaturesVersion, image: HistoryImage) -> None:
        self._image = image
        self._columns = version.definition.values
        self._key = Input(version.definition.key, None, image.user_type)
        self.key, self.names = version.definition.key.lower(), by_lower_name(self._columns)
        self._passes = version.definition.time is not None and not pa.types.is_integer(image.time_type)
        self._remembered = functools.lru_cache(MOST_REMEMBERED, typed=True)(self._found)

    def values(self, key: Any) -> Mapping[str, Any] | None:
        """Return the features of a key by their names in lower case, as JSON has them; None of one that is not known.

        Of a table with TIME they are those known now, or the last where times are numbers.
        """
        if self._passes or type(key) not in (str, int):
            return self._found(key)
        return self._remembered(key)

    def _found(self, key: Any) -> Mapping[str, Any] | None:
        found = self._image.latest(self._key.array([key]), self._now(), self._columns)
        return None if found is None else dict(zip(self.names, map(as_json, found), strict=True))

    def _now(self) -> int | None:
        if not self._passes:
            return None
        now = pa.array([datetime.now(UTC)], pa.timestamp("us", tz="UTC"))
        return int(as_numbers(now.cast(self._image.time_type, safe=False))[0].as_py())


def as_json(value: Any) -> Any:
    """Return a value of Arrow as a client writes it; the service casts others."""
    if isinstance(value, date) and not isinstance(value, datetime):
        return value.isoformat()
    return dict(value) if isinstance(value, list) and value and isinstance(value[0], tuple) else value


def lookups_of(features: StoredFeatures, names: Sequence[str]) -> list[FeatureLookup]:
    """Return the tables of --features.

    Raises:
        StatementError, ModelError: see FeatureLookup; or two give one column.
    """
    tables = [FeatureLookup(features, name) for name in names]
    owners: dict[str, str] = {}
    for table in tables:
        for column in table.version.definition.values:
            other = owners.setdefault(column.lower(), table.name)
            if other != table.name:
                raise StatementError(
                    f"--features {other} and --features {table.name} both have the column {column}. Rename it in one, with AS."
                )
    return tables


def counted(tables: Sequence[FeatureLookup]) -> Callable[[], Iterator[str]]:
    """Return a function that gives the tables' metrics in Prometheus' text format."""

    def lines() -> Iterator[str]:
        if not tables:
            return
        yield from head("xpsql_feature_lookups_total", "counter", "Keys looked up in feature tables.")
        for table in tables:
            for found, count in (("true", table.found), ("false", table.missing)):
                yield f'xpsql_feature_lookups_total{{table="{escaped(table.name)}",found="{found}"}} {count}'
        yield from head("xpsql_features_age_seconds", "gauge", "Seconds since the version of a feature table was published.")
        for table in tables:
            age = datetime.now(UTC) - datetime.fromisoformat(table.version.created)
            yield f'xpsql_features_age_seconds{{table="{escaped(table.name)}"}} {age.total_seconds():.3f}'

    return lines
