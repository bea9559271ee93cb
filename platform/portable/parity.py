"""Rows of a version with its predictions, which a graph must give, too."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ..engines.base import Engine
from ..engines.staging import starts_of
from ..errors import ModelError, StatementError, Subject, XpsqlError
from ..input.columns import columns_from
from ..input.kinds.events import USER
from ..scoring.rows import rows_of

if TYPE_CHECKING:
    from ...warehouse.version import Version

ROWS = 1000
TOLERANCE = 1e-5
INPUT = "input."


def parity_rows(version: Version, engine: Engine, query: str) -> pa.Table:
    """Return the first rows of a query as the columns of a version.

    Args:
        query: "" for that of the training.

    Raises:
        StatementError: it cannot run, has no rows, or lacks a column of the model.
    """
    subject = Subject("WITH", option="parity")
    advice = "Give rows that the model can score: WITH (parity = 'SELECT ...')."
    try:
        rows = rows_of(version, engine, query or version.manifest.query)
        table = engine.reader(f"SELECT * FROM ({rows.query}) LIMIT {ROWS}").read_all()
    except XpsqlError as error:
        which = "The query of parity" if query else "The query of the training"
        raise StatementError(f"{which}, whose rows are exported with their predictions, fails: {error} {advice}") from error
    if not table.num_rows:
        raise StatementError(
            f"{subject}: the query has no rows, whose predictions could be compared. {advice}", subject=subject
        )
    table = table.select(list(rows.inputs.values())).rename_columns(list(rows.inputs))
    return table if rows.user is None else first_windows(version, table)


def first_windows(version: Version, table: pa.Table) -> pa.Table:
    """Return rows of users side by side, of each as many as a graph reads together."""
    columns = columns_from(version.manifest)
    users = next(slot for slot in columns.slots if slot.role == USER.role)
    starts = starts_of(table.column(users.column))
    within = np.arange(len(table)) - np.repeat(starts, np.diff(np.append(starts, len(table))))
    return table.filter(pa.array(within < users.length))


def write_parity(
    path: Path, table: pa.Table, inputs: Mapping[str, NDArray[Any]], predictions: Mapping[str, NDArray[np.float32]]
) -> None:
    """Write rows: their columns, `input.<name>` as graphs take them, and predictions."""
    columns = {name: table.column(name).combine_chunks() for name in table.column_names}
    for name, values in inputs.items():
        columns[INPUT + name] = column_of(values)
    columns |= {name: column_of(values) for name, values in predictions.items()}
    pq.write_table(pa.table(columns), path, compression="zstd")


def column_of(values: NDArray[Any]) -> pa.Array:
    """Return values of rows as a column: of arrays of arrays where they have three axes."""
    column = pa.array(values.reshape(-1))
    for size in values.shape[:0:-1]:
        column = pa.ListArray.from_arrays(pa.array(np.arange(0, len(column) + 1, size, dtype=np.int32)), column)
    return column


def said_by(graph: Path, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[np.float32]]:
    """Return onnxruntime's outputs for a graph, by name."""
    import onnxruntime

    onnxruntime.set_default_logger_severity(3)
    session = onnxruntime.InferenceSession(graph, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    wanted = {one.name for one in session.get_inputs()}
    found = session.run(names, {name: values for name, values in inputs.items() if name in wanted})
    return dict(zip(names, found, strict=True))


def difference(said: Mapping[str, NDArray[Any]], wanted: Mapping[str, NDArray[np.float32]]) -> float:
    """Return the largest difference, of predictions beyond 1 relative to them."""
    return max(
        float((np.abs(said[name] - values) / np.maximum(1, np.abs(values))).max(initial=0)) for name, values in wanted.items()
    )


def check(file: str, said: Mapping[str, NDArray[Any]], wanted: Mapping[str, NDArray[np.float32]]) -> float:
    """Return the largest difference.

    Raises:
        ModelError: it is more than TOLERANCE.
    """
    found = difference(said, wanted)
    if not found <= TOLERANCE:  # NaN is none
        raise ModelError(
            f"Predictions by {file} in onnxruntime differ by {found:.3g} from the model's, {TOLERANCE:g} at most was "
            "expected; nothing is exported. Export as parquet, or report it with the statement that trained the model."
        )
    return found
