"""ML.DATA_DRIFT: how far the rows of a query are from those that a version learned, slot by slot."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ..engines.base import Engine, Scan
from ..engines.staging import staged
from ..errors import DataError, ModelError, StatementError, suggestion
from ..input.columns import columns_in
from ..input.splits import chunk_rows
from ..ps.keys import feature_keys, hashed_keys, raw_keys
from ..scoring.rows import ScoredRows, rows_of
from ..scoring.scorer import BATCH_SIZES
from ..scoring.scorer_cache import SCORERS
from ..training.metrics.profile import Profile
from ..training.profiles.drift import Drift, drifts
from ..training.profiles.stored import categories, edges_in, known_in, profiled, profiles_in, profiles_of
from ..training.recipe import algorithm_of

if TYPE_CHECKING:
    from ...warehouse.version import Version
    from ..input.slot import Slot
    from ..progress import Reporter

NAMED_ROWS = 1 << 18
"""Of how many rows values are read, to name those that have changed."""
NUMBERS = ("drift", "js", "noise", "l_infinity", "psi", "wasserstein", "null_share", "null_share_before", "new_share")
CHANGES = pa.list_(pa.struct([("value", pa.string()), ("before", pa.float64()), ("now", pa.float64())]))
SCHEMA = pa.schema(
    [
        ("slot", pa.string()),
        ("kind", pa.string()),
        *((name, pa.float64()) for name in (*NUMBERS, "new_share_before")),
        ("rows", pa.int64()),
        ("rows_before", pa.int64()),
        ("top_changes", CHANGES),
    ]
)


def without_profile(version: Version) -> ModelError:
    """Return the error that says why a version has no profile, and how to get one."""
    name = version.manifest.algorithm.name
    why, how = (
        ("only TRAIN and CONTINUE of this xpsql make one", "CONTINUE it, and compare with the new version.")
        if algorithm_of(version.manifest).learns.serves
        else (f"{name} learns from all rows at once", "TRAIN a model of xftrl on the same rows, and compare with that.")
    )
    return ModelError(
        f"Version {version.number} of model {version.manifest.model} has no profile of the rows that it learned: {why}. {how}"
    )


class DataDrift:
    """The rows of a query beside those that a version learned, checked and to be measured.

    Args:
        by: a column of the query, of each of whose values the rows are measured by themselves; None: all together.

    Attributes:
        schema: of the result.

    Raises:
        StatementError: the query cannot run, or lacks a column.
        ModelError: the version has no profile.
    """

    def __init__(self, version: Version, engine: Engine, query: str, by: str | None) -> None:
        self._version, self._engine = version, engine
        self._before = profiles_in(version)
        if not self._before:
            raise without_profile(version)
        self._rows: ScoredRows = rows_of(version, engine, query)
        self._columns = columns_in(version)
        self._by: pa.Field | None = None
        if by is not None:
            names = {field.name.lower(): field for field in self._rows.schema}
            if by.lower() not in names:
                raise StatementError(f"BY {by}: the query has no such column.{suggestion(by, list(names))}")
            self._by = names[by.lower()]
        self.schema = SCHEMA if self._by is None else pa.schema([self._by, *SCHEMA])

    def measure(self, folder: Path, reporter: Reporter) -> pa.Table:
        """Read and score the rows, and return a row for each slot, and for predictions.

        Args:
            folder: empty, for intermediate files.

        Raises:
            DataError: there are no rows, or a value cannot be encoded.
        """
        rows = self._rows
        scan = staged(self._engine, rows.query, rows.found, folder / "input")
        profiles = self._profiles(scan, reporter)
        if not profiles:
            raise DataError("ML.DATA_DRIFT has nothing to compare: the query returns no rows.")
        known, edges = known_in(self._version), edges_in(self._before)
        found: list[tuple[Any, list[Drift]]] = [
            (value, list(drifts(self._before, profiles_of(profile.tally(), self._columns, edges, known))))
            for value, profile in profiles.items()
        ]
        names = self._named(scan, [drift for _, part in found for drift in part])
        own = {} if self._by is None else {self._by.name: None}
        rows_found = [
            {**dict.fromkeys(own, value), **row_of(drift, names.get(drift.slot, {}))} for value, part in found for drift in part
        ]
        return pa.Table.from_pylist(rows_found, self.schema)

    def _profiles(self, scan: Scan, reporter: Reporter) -> dict[Any, Profile]:
        """Return the profile of the rows of each value of BY; of all rows under None without."""
        scorer, algorithm = SCORERS.of(self._version), algorithm_of(self._version.manifest)
        labels = len(self._columns.labels) if algorithm.values else 0
        asked = profiled(self._columns, labels, algorithm.classifier)
        found: dict[Any, Profile] = {}
        done = 0
        reporter.start(f"ML.DATA_DRIFT of {self._version.manifest.model} v{self._version.number}", None)
        try:
            for value, features in self._pieces(scan):
                profile = found.setdefault(value, Profile(asked))
                batches = scorer.encoded(features)
                predictions = scorer.said(features, batches).predictions.T
                start = 0
                for batch in batches:
                    profile.add(batch, predictions[:, start : start + batch.examples], done + start)
                    start += batch.examples
                done += features.num_rows
                reporter.update(done, {})
        finally:
            reporter.finish("")
        return found

    def _pieces(self, scan: Scan) -> Iterator[tuple[Any, pa.Table]]:
        """Read the rows: values of BY, and the columns of the version."""
        inputs = self._rows.inputs
        own = [] if self._by is None else [self._by.name]
        for split in scan.splits():
            for table in scan.read(split, list(dict.fromkeys([*inputs.values(), *own])), chunk_rows(BATCH_SIZES[-1])):
                if not table.num_rows:
                    continue
                features = table.select(list(inputs.values())).rename_columns(list(inputs))
                if self._by is None:
                    yield None, features
                    continue
                column = table.column(self._by.name)
                for value in pc.unique(column):
                    same = pc.is_null(column) if not value.is_valid else pc.fill_null(pc.equal(column, value), False)
                    yield value.as_py(), features.filter(same)

    def _named(self, scan: Scan, found: list[Drift]) -> dict[str, dict[int, str]]:
        """Return the texts of the keys of values that have changed, by slot, as far as the first rows have them."""
        wanted = {drift.slot: np.array([one.key for one in drift.changes], np.uint64) for drift in found if drift.changes}
        names: dict[str, dict[int, str]] = {slot: {} for slot in wanted}
        slots = [slot for slot in categories(self._columns) if slot.name in wanted]
        read = 0
        for _, features in self._pieces(scan) if slots else ():
            for slot in slots:
                values = values_of(self._columns.filled(features).column(slot.column), slot)
                keys = keys_of_values(values, slot)
                there = np.flatnonzero(np.isin(keys, wanted[slot.name]))
                texts = values.take(pa.array(there)).cast(pa.string()).to_pylist()
                names[slot.name] |= dict(
                    zip(keys[there].tolist(), ("NULL" if one is None else one for one in texts), strict=True)
                )
            read += features.num_rows
            if read >= NAMED_ROWS:
                break
        return names


def values_of(column: pa.ChunkedArray, slot: Slot) -> pa.Array:
    """Return the distinct values of a slot's column, of arrays their elements."""
    array = column.combine_chunks()
    if pa.types.is_map(array.type):
        array = array.keys
    elif pa.types.is_list(array.type) or pa.types.is_large_list(array.type):
        array = pc.list_flatten(array)
    if slot.field and pa.types.is_struct(array.type):
        array = array.field(slot.field)
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    return pc.unique(array)


def keys_of_values(values: pa.Array, slot: Slot) -> NDArray[np.uint64]:
    """Return the keys of values."""
    if slot.raw:
        return raw_keys(slot.source, values)
    return hashed_keys(slot.source, values) if slot.hashed else feature_keys(slot.source, values)


def row_of(drift: Drift, names: Mapping[int, str]) -> dict[str, Any]:
    """Return what the function says of a slot."""
    before, now = drift.before, drift.now
    changes = [
        {"value": names.get(one.key, f"key {one.key:016x}"), "before": one.before, "now": one.now} for one in drift.changes
    ]
    return {
        "slot": drift.slot,
        "kind": drift.kind,
        **{name: getattr(drift, name) for name in ("drift", "js", "noise", "l_infinity", "psi", "wasserstein")},
        "null_share": now.null_share,
        "null_share_before": before.null_share,
        "new_share": now.new_share,
        "new_share_before": before.new_share,
        "rows": now.rows,
        "rows_before": before.rows,
        "top_changes": changes,
    }
