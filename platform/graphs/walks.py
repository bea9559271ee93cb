"""ML.WALKS: random walks over a graph, as rows for word2vec."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ..cores import cores
from ..engines.base import Engine
from ..options import option
from ..ps import _native
from ..training.compiled import share_work
from .edges import EdgeColumns, EdgesOut, edges_out

MOST_STEPS = 1 << 24  # that are in memory at once


@dataclass(frozen=True)
class WalkOptions:
    """The options of WITH."""

    length: int = option(
        40, "vertices of a walk; one that comes to a vertex that no edge leaves is shorter", minimum=1, maximum=100_000
    )
    per_node: int = option(10, "walks from each vertex", minimum=1, maximum=100_000)
    p: float = option(1.0, "the larger, the rarer a walk goes back to where it just was", minimum=1e-3, maximum=1e3)
    q: float = option(1.0, "the larger, the nearer a walk stays to where it just was", minimum=1e-3, maximum=1e3)
    undirected: bool = option(False, "edges lead both ways")
    seed: int = option(1, "seed of the walks", minimum=0, maximum=2**31 - 1)


class Walks:
    """The walks of a query's edges, checked and to be made.

    Attributes:
        schema: node, number and walk.

    Raises:
        StatementError: the query cannot run, or see EdgeColumns.check.
    """

    def __init__(self, engine: Engine, query: str, columns: EdgeColumns, options: WalkOptions) -> None:
        schema = engine.schema(query)
        self._engine, self._query, self._options = engine, query, options
        self._columns = columns.check(schema, "ML.WALKS")
        kind = schema.field(self._columns.source).type
        kind = kind.value_type if pa.types.is_dictionary(kind) else kind
        self.schema = pa.schema([("node", kind), ("number", pa.int32()), ("walk", pa.list_(kind))])

    def write(self, folder: Path, note: Callable[[str], None]) -> list[Path]:
        """Write the walks, ordered by the key of the vertex that they begin at."""
        share_work(cores())
        graph = edges_out(self._engine, self._query, self._columns, self._options.undirected)
        if graph.dropped:
            note(f"{graph.dropped:,} rows with a NULL end are left out.")
        path = folder / "walks.parquet"
        with pq.ParquetWriter(path, self.schema, compression="lz4") as writer:
            for table in self._tables(graph):
                writer.write_table(table.cast(self.schema))
        return [path]

    def _tables(self, graph: EdgesOut) -> Iterator[pa.Table]:
        options, vertices = self._options, len(graph.keys)
        size = max(1, MOST_STEPS // (options.per_node * options.length))
        for first in range(0, vertices, size):
            starts = np.arange(first, min(first + size, vertices), dtype=np.int32)
            steps = _native.walks(
                graph.offsets,
                graph.others,
                graph.cumulative,
                graph.keys,
                starts,
                options.per_node,
                options.length,
                options.p,
                options.q,
                options.seed,
            ).reshape(-1, options.length)
            there = steps >= 0
            offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(there.sum(axis=1))]).astype(np.int32)
            walks = pa.ListArray.from_arrays(pa.array(offsets), graph.names.take(pa.array(steps[there])))
            nodes = graph.names.take(pa.array(np.repeat(starts, options.per_node)))
            numbers = pa.array(np.tile(np.arange(options.per_node, dtype=np.int32), len(starts)))
            yield pa.table([nodes, numbers, walks], names=self.schema.names)
