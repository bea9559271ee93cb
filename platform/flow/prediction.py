"""Scoring rows with a version: its weights in memory, its encoder, its algorithm."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import jax.numpy as jnp
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ...warehouse.dense import read_dense
from ...warehouse.models import Version
from ..engines.base import Engine, Scan
from ..errors import StatementError
from ..ps._native import Store
from ..ps.dense import Array
from ..ps.ladder import Ladder
from ..ps.programs import OFFERED
from ..ps.table import BatchId
from .ahead import Ahead
from .batches import Batch, Ladders, batches
from .compiled import prepare_jax
from .encode import encode
from .offered import offered_of
from .recipe import algorithm_of
from .scaling import scale
from .slots import Columns, columns_from, matched
from .splits import chunk_rows, read, splits_of
from .state import moments_of_version, values
from .step import inputs_of, score_step

if TYPE_CHECKING:
    from ..progress import Reporter

BATCH_SIZE = 4096
AHEAD_CHUNKS = 1


class Scored(NamedTuple):
    """A chunk of rows and their predictions, float32[rows, num_labels]."""

    rows: pa.Table
    predictions: NDArray[np.float32]


class Weights:
    """The parameters of a version as readers need them, without the optimizer's state: by key weights and what operators offer,
    and dense ones."""

    def __init__(self, version: Version) -> None:
        self._stores = {}
        self._dims = {table.name: table.dim for table in version.manifest.tables}
        self._offered = {t.name: t.columns[OFFERED] for t in version.manifest.tables if OFFERED in t.columns}
        self._dense = {name: jnp.asarray(values) for (name, _), values in read_dense(version.dense, "w").items()}
        for name, dim in self._dims.items():
            dims = {"w": dim, **({OFFERED: self._offered[name]} if name in self._offered else {})}
            store = self._stores[name] = Store([(column, "float32", floats) for column, floats in dims.items()])
            for batch in version.rows(name, ["key", *dims]):
                keys, *columns = batch.columns
                rows, _ = store.insert(keys.to_numpy().view(np.uint64))
                arrays = [values(column).reshape(-1, floats) for column, floats in zip(columns, dims.values(), strict=True)]
                store.scatter(rows, list(range(len(dims))), arrays)

    def pull(self, keys: NDArray[np.uint64], size: int) -> tuple[dict[str, Array], dict[str, NDArray[np.float32]]]:
        """Return what a version knows of unique keys.

        Returns:
            The weights by table, float32[size, dim], zeros for keys that the model does not know, and the dense parameters;
            what operators offer, float32[size, k], by table.
        """
        weights = {name: np.zeros((size, dim), np.float32) for name, dim in self._dims.items()}
        offered = {name: np.zeros((size, k), np.float32) for name, k in self._offered.items()}
        for name, store in self._stores.items():
            arrays = [by_table[name] for by_table in (weights, offered) if name in by_table]
            store.gather(store.lookup(keys), list(range(len(arrays))), arrays)
        return {**weights, **self._dense}, offered


class Scorer:
    """Scores rows with a version.

    Raises:
        StatementError, ModelError: the version's parts or files cannot be used.
    """

    def __init__(self, version: Version) -> None:
        prepare_jax()
        self.columns: Columns = columns_from(version.manifest)
        self.algorithm = algorithm_of(version.manifest)
        self._weights = Weights(version)
        self._moments = moments_of_version(version, self.columns)
        self._step = score_step(self.algorithm)
        self._ladders = Ladders(Ladder(), Ladder())

    def score(self, scan: Scan, inputs: Mapping[str, str], carried: Sequence[str]) -> Iterator[Scored]:
        """Score the rows of a scan, in order.

        Args:
            inputs: the model's column -> the scan's.
            carried: columns of the scan that the chunks have beside predictions.
        """
        wanted = list(dict.fromkeys([*inputs.values(), *carried]))

        def chunks() -> Generator[tuple[pa.Table, list[Batch]], None, None]:
            for split in splits_of(scan):
                for table in read(scan, split, wanted, chunk_rows(BATCH_SIZE)):
                    if not table.num_rows:
                        continue  # a filter left nothing of the piece
                    features = table.select(list(inputs.values())).rename_columns(list(inputs))
                    chunk = encode(features, self.columns, with_labels=False)
                    yield table.select(list(carried)), list(batches(chunk, BATCH_SIZE, BatchId(), self._ladders))

        with Ahead(chunks, AHEAD_CHUNKS) as ahead:
            for table, cut in ahead:
                yield Scored(table, np.concatenate([self._predict(batch) for batch in cut]))

    def _predict(self, batch: Batch) -> NDArray[np.float32]:
        dense = scale(batch.dense, self._moments, BATCH_SIZE)
        parameters, offered = self._weights.pull(batch.keys, batch.size)
        predictions = self._step(parameters, inputs_of(batch, dense, None), offered_of(batch, offered))
        return np.asarray(predictions)[: batch.examples]


def predict(
    version: Version, engine: Engine, query: str, columns: frozenset[str] | None, folder: Path, reporter: Reporter
) -> list[Path]:
    """Run ML.PREDICT: write the query's columns and predicted_<label> as Parquet.

    Args:
        columns: the result columns that are needed, in lower case; None for all.
        folder: empty; the files go here.

    Raises:
        StatementError: the query cannot run, or lacks a column of the model, or has it as another kind.
    """
    scan = engine.scan(query) or engine.stage(query, folder / "input")
    scorer = Scorer(version)
    inputs = matched(scorer.columns, scan.schema, scorer.columns.inputs)
    added = [f"predicted_{label}" for label in scorer.columns.labels]
    clash = {name.lower() for name in added} & {name.lower() for name in scan.schema.names}
    if clash:
        raise StatementError(f"The input already has the column {', '.join(sorted(clash))}; rename it with AS.")
    carried = [name for name in scan.schema.names if columns is None or name.lower() in columns]
    schema = pa.schema([*(scan.schema.field(name) for name in carried), *(pa.field(name, pa.float64()) for name in added)])
    path = folder / "predictions.parquet"
    reporter.start(f"ML.PREDICT with {version.manifest.model} v{version.number}", None)
    examples = 0
    try:
        with pq.ParquetWriter(path, schema, compression="lz4", use_dictionary=carried) as writer:
            for rows, predictions in scorer.score(scan, inputs, carried):
                scores = [pa.array(predictions[:, i].astype(np.float64)) for i in range(len(added))]
                writer.write_table(pa.table([*rows.columns, *scores], names=schema.names).cast(schema))
                examples += len(predictions)
                reporter.update(examples, {})
    finally:
        reporter.finish("")
    return [path]
