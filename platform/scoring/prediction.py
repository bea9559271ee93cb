"""ML.PREDICT: a query's rows with a version's predictions, in memory or as Parquet files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ..cores import cores
from ..engines.base import Engine, Scan, Staged
from ..engines.staging import staged, whole_users
from ..engines.tasks import Tasks
from ..errors import StatementError
from ..input.columns import columns_from
from ..input.splits import CHUNK_ROWS
from ..training.compiled import share_work
from ..training.profiles.intervals import Width, widths_of
from .rows import rows_of
from .scorer import Request, Scored, Scorer, predictions_of
from .scorer_cache import SCORERS

if TYPE_CHECKING:
    from ...algorithms.base import Algorithm
    from ...warehouse.version import Version
    from ..progress import Reporter

SMALL_ROWS = 100_000
"""Up to so many rows, of the input and of the version, the driver scores alone: tasks take longer to start."""

FEW_ROWS = 4096
"""Up to so many predictions stay in memory."""


class Prediction:
    """A query's columns and predicted_<label>, checked and to be written.

    Args:
        level: of the intervals that are wanted, too; None: none are.

    Attributes:
        schema: the result's columns.

    Raises:
        StatementError: the query cannot run, lacks a column of the model or has it as another kind, or has a column with the
            name of a prediction; see widths_of.
    """

    def __init__(self, version: Version, engine: Engine, query: str, level: float | None) -> None:
        self._version, self._engine = version, engine
        rows = rows_of(version, engine, query)
        self._query, self._found, self._inputs, self._own = rows.query, rows.found, rows.inputs, rows.schema.names
        self._user = rows.user
        self._widths = () if level is None else intervals_of(version, level)
        self._added = [*predictions_of(version), *bounds_of(version, self._widths)]
        check_new(self._added, self._own)
        self.schema = pa.schema([*rows.schema, *self._added])

    def write(self, columns: frozenset[str] | None, folder: Path, reporter: Reporter) -> pa.Table | list[Path]:
        """Score the rows.

        Args:
            columns: the result columns that are needed, in lower case; None for all.
            folder: empty; the files go here. With an engine of tasks, all machines share it.

        Returns:
            A few rows as a table, more as files; in the order of the input's rows, of users' events user by user.
        """
        if self._user is not None or (isinstance(self._found, Staged) and self._engine.tasks is None):
            return self._stream(columns, folder / "predictions.parquet", reporter)
        scan = staged(self._engine, self._query, self._found, folder / "input")
        carried = [name for name in self._own if columns is None or name.lower() in columns]
        request = request_of(self._version, scan, self._inputs, carried)
        bounds = bounds_of(self._version, self._widths)
        request = request._replace(widths=self._widths, schema=pa.schema([*request.schema, *bounds]))
        reporter.start(f"ML.PREDICT with {self._version.manifest.model} v{self._version.number}", None)
        try:
            if self._engine.tasks is None or is_small(request):
                return [score_here(request, folder / "predictions.parquet", reporter)]
            from .tasks import score_on

            return score_on(self._engine.tasks, request, folder, reporter)
        finally:
            reporter.finish("")

    def _stream(self, columns: frozenset[str] | None, path: Path, reporter: Reporter) -> pa.Table | list[Path]:
        """Score the rows of a query that cannot be read in place, as they arrive."""
        carried = [name for name in self._own if columns is None or name.lower() in columns]
        names = list(self._inputs)
        schema = pa.schema([self.schema.field(name) for name in [*carried, *(field.name for field in self._added)]])
        share_work(cores())
        scorer, done = SCORERS.of(self._version), 0
        kept: list[pa.Table] = []
        reporter.start(f"ML.PREDICT with {self._version.manifest.model} v{self._version.number}", None)
        with ExitStack() as stack:
            stack.callback(reporter.finish, "")
            writer: pq.ParquetWriter | None = None
            read = (pa.Table.from_batches([batch]) for batch in self._engine.reader(self._query))
            for rows in read if self._user is None else whole_users(read, self._user, CHUNK_ROWS):
                said = scorer.scored(rows.select(list(self._inputs.values())).rename_columns(names))
                said = said._replace(widths=self._widths)
                kept.append(pa.Table.from_arrays([*rows.select(carried).columns, *said.columns], schema=schema))
                done += rows.num_rows
                reporter.update(done, {})
                if writer is None and done > FEW_ROWS:
                    writer = stack.enter_context(pq.ParquetWriter(path, schema, compression="lz4"))
                while writer is not None and kept:
                    writer.write_table(kept.pop(0))
        return [path] if writer is not None else pa.concat_tables([schema.empty_table(), *kept])


def check_new(added: Iterable[pa.Field], own: Iterable[str]) -> None:
    """Refuse an input that has a column already that the result adds."""
    clash = {field.name.lower() for field in added} & {name.lower() for name in own}
    if clash:
        raise StatementError(f"The input already has the column {', '.join(sorted(clash))}; rename it with AS.")


def intervals_of(version: Version, level: float) -> tuple[Width, ...]:
    """Return the intervals of a version's labels; see widths_of."""

    def algorithm() -> Algorithm:
        from ..training.recipe import algorithm_of  # imports JAX

        return algorithm_of(version.manifest)

    return widths_of(version, algorithm, level)


def bounds_of(version: Version, widths: Sequence[Width]) -> list[pa.Field]:
    """Return the columns of the intervals of predictions."""
    labels = version.manifest.roles.labels[: len(widths)]
    return [pa.field(f"predicted_{label}_{bound}", pa.float64()) for label in labels for bound in ("low", "high")]


def request_of(version: Version, scan: Scan, inputs: Mapping[str, str], carried: Sequence[str]) -> Request:
    """Return the request to score the rows of a scan, some of whose columns are carried."""
    schema = pa.schema([*(scan.schema.field(name) for name in carried), *predictions_of(version)])
    return Request(version, scan, scan.splits(), inputs, tuple(carried), schema, None)


def scored(request: Request, tasks: Tasks | None, folder: Path, reporter: Reporter) -> Iterator[Scored]:
    """Score rows by the labels of a model and iterate over them, in order; see Prediction.write."""
    if tasks is None or is_small(request):
        yield from scorer_here(request).score(request, request.splits)
        return
    from .tasks import score_on

    for path in score_on(tasks, request, folder, reporter):
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches():
                table = pa.table(batch)
                carried = len(request.carried)
                columns, rows = table.columns[carried:], table.select(list(request.carried))
                if (classes := columns_from(request.version.manifest).classes) is not None:
                    values = columns[1].combine_chunks().items.to_numpy().astype(np.float32)
                    yield Scored(rows, values.reshape(len(rows), -1), {}, classes)
                    continue
                predictions = [column.to_numpy().astype(np.float32) for column in columns[: request.num_labels]]
                yield Scored(rows, np.stack(predictions, axis=1), {})


def scorer_here(request: Request) -> Scorer:
    """Return a scorer in this process."""
    share_work(cores())
    return SCORERS.of(request.version)


def is_small(request: Request) -> bool:
    """Return whether tasks would take longer to start than to score."""
    return max(request.version.manifest.learned.rows or 0, sum(split.rows for split in request.splits)) <= SMALL_ROWS


def score_here(request: Request, path: Path, reporter: Reporter) -> Path:
    """Score in this process."""
    scorer, examples = scorer_here(request), 0
    for rows in scorer.write(request, request.splits, path):
        examples += rows
        reporter.update(examples, {})
    return path
