"""ML.REPLAY: served predictions and keys compared with the same rows scored offline."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ..cores import cores
from ..engines.base import Engine, Scan
from ..engines.staging import staged
from ..errors import StatementError, suggestion
from ..input.columns import columns_in
from ..input.splits import chunk_rows
from ..scoring.rows import rows_of
from ..scoring.scorer import BATCH_SIZES, Scorer, predictions_of
from ..scoring.scorer_cache import scorer_of
from ..scoring.weights import Weights
from ..training.compiled import share_work
from .differences import DIFFERENCES, differences
from .keys import KEYS, keys_of
from .request_log import KEYS_COLUMN, PREDICTION, VERSION, plain, prediction_of

if TYPE_CHECKING:
    from ...warehouse.version import Version
    from ..progress import Reporter

SERVED, OFFLINE, DIFFERENCE = "served", "offline", "difference"


class Replay:
    """Logged requests scored again by a version, checked and to be written.

    Attributes:
        schema: the query's columns, without what was served; served, offline, difference, and the columns of DIFFERENCES.

    Raises:
        StatementError: the query cannot run, lacks a column of the model or of the log, or has a column with the name of a
            result.
    """

    def __init__(self, version: Version, engine: Engine, query: str) -> None:
        self._version, self._engine = version, engine
        rows = rows_of(version, engine, query)
        self._query, self._found, self._inputs, schema = rows.query, rows.found, rows.inputs, rows.schema
        self._columns = columns_in(version)
        own = {name.lower(): name for name in schema.names}
        for name in (PREDICTION, KEYS_COLUMN):
            if name not in own:
                raise StatementError(
                    f"ML.REPLAY needs the column {name} of a log of xpsql serve.{suggestion(name, schema.names)}"
                )
        self._logged = own[PREDICTION], own[KEYS_COLUMN]
        self._of_version = own.get(VERSION)
        self._carried = [name for name in schema.names if name not in self._logged]
        outputs = predictions_of(version)
        several = len(outputs) > 1 or pa.types.is_list(outputs[-1].type)
        kind = pa.list_(pa.float64()) if several else pa.float64()
        added = [(SERVED, kind), (OFFLINE, kind), (DIFFERENCE, pa.float64()), *DIFFERENCES]
        if clash := {name for name, _ in added} & {name.lower() for name in self._carried}:
            raise StatementError(f"The input already has the column {', '.join(sorted(clash))}; rename it with AS.")
        self.schema = pa.schema(
            [*(schema.field(name) for name in self._carried), *(pa.field(name, type) for name, type in added)]
        )

    def write(self, folder: Path, reporter: Reporter) -> list[Path]:
        """Score the rows that this version served and write them with what differs.

        Args:
            folder: empty; the file goes here.

        Raises:
            DataError: a row cannot be read or encoded.
        """
        scan, path, rows = staged(self._engine, self._query, self._found, folder / "input"), folder / "replay.parquet", 0
        reporter.start(f"ML.REPLAY with {self._version.manifest.model} v{self._version.number}", None)
        try:
            with pq.ParquetWriter(path, self.schema, compression="lz4") as writer:
                for table in self._replayed(scan):
                    writer.write_table(table)
                    rows += table.num_rows
                    reporter.update(rows, {})
        finally:
            reporter.finish("")
        return [path]

    def _replayed(self, scan: Scan) -> Iterator[pa.Table]:
        share_work(cores())
        scorer = scorer_of(self._version, Weights(self._version, 0, 1).pull)
        version = [] if self._of_version is None else [self._of_version]
        wanted = list(dict.fromkeys([*self._inputs.values(), *self._carried, *self._logged, *version]))
        for split in scan.splits():
            for table in scan.read(split, wanted, chunk_rows(BATCH_SIZES[-1])):
                rows = table
                if self._of_version is not None:
                    number = pa.scalar(self._version.number, pa.int64())
                    rows = rows.filter(pc.equal(rows.column(self._of_version).cast(pa.int64()), number))
                if rows.num_rows:
                    yield self._compared(rows, scorer)

    def _compared(self, rows: pa.Table, scorer: Scorer) -> pa.Table:
        features = rows.select(list(self._inputs.values())).rename_columns(list(self._inputs))
        kind = self.schema.field(SERVED).type
        offline = prediction_of(scorer.scored(features).columns)
        served = plain(rows.column(self._logged[0])).combine_chunks().cast(kind)
        logged = plain(rows.column(self._logged[1])).combine_chunks().cast(KEYS)
        added = [served, offline, distance(served, offline), *differences(logged, keys_of(features, self._columns))]
        return pa.table([*(rows.column(name) for name in self._carried), *added], names=self.schema.names).cast(self.schema)


def distance(served: pa.Array, offline: pa.Array) -> pa.Array:
    """Return the difference of two predictions, the largest of several; NULL where what was served has another length."""
    if not pa.types.is_list(offline.type):
        return apart(served, offline)
    same = pc.equal(pc.list_value_length(served), pc.list_value_length(offline)).fill_null(False)
    kept = same.to_numpy(zero_copy_only=False)
    found = apart(served.filter(same).flatten(), offline.filter(same).flatten())
    size = len(found) // max(int(kept.sum()), 1)
    most = np.full(len(kept), np.nan)
    most[kept] = found.to_numpy(zero_copy_only=False).reshape(-1, max(size, 1)).max(axis=1) if size else 0.0
    return pa.array(most, from_pandas=True)


def apart(served: pa.Array, offline: pa.Array) -> pa.Array:
    one, other = (side.to_numpy(zero_copy_only=False).astype(np.float64) for side in (served, offline))
    with np.errstate(invalid="ignore"):
        found = np.where(one == other, 0.0, np.abs(one - other))
    return pa.array(found, from_pandas=True)
