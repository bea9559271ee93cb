"""What a training step computes, counted in operations of floats: of a row, and of what a group of rows has in common."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
import pyarrow as pa

from ....algorithms.base import Algorithm
from ....algorithms.blocks.events import USER
from ....algorithms.layers.lookups import portable
from ....warehouse.entries import Split
from ...engines.base import Scan
from ...input.batches import Batch, Ladders
from ...input.columns import Columns
from ...input.encoder import Encoder
from ...input.source import row_of
from ...options import events_read
from ...ps.compiled.ladder import Ladder
from ...ps.messages import BatchId
from ..plan import Plan
from .step import inputs_of, random_of, step_of

KILO, MEGA = 1e3, 1e6
USERS = 8


def compute_rows(
    scan: Scan, splits: Sequence[Split], columns: Columns, encoder: Encoder, algorithm: Algorithm, seed: int, batch_size: int
) -> list[tuple[str, str]]:
    """Describe how many operations the first batch's step takes for a row, and for a group of rows that share some; nothing
    of what has no such step, or one that depends on learned rows.

    Args:
        encoder: finds what rows have in common, where that is wanted.
    """
    elsewhere = not algorithm.serves or algorithm.traits.outside or algorithm.tree is not None or columns.ends is not None
    if elsewhere or columns.searched or columns.offered or columns.sides:
        return []
    for split in splits:
        for table in scan.read(split, columns.learned, batch_size):
            if not table.num_rows:
                continue

            def cut(own: Encoder) -> Batch:
                chunk = own.chunk(table, functools.partial(row_of, scan, split, 0))  # noqa: B023  it is called here
                return next(own.batches(chunk, batch_size, BatchId(), Ladders(Ladder(), Ladder()), 0))

            flat, shared = (cut(one) for one in (Encoder(columns, algorithm, seed, compact=False), encoder))
            rows, alone = len(flat.weight), operations(algorithm, flat)
            if shared.group is None:
                return [("compute", f"{counted_operations(alone / rows)} a row")]
            groups = shared.group.scalar.shape[1]
            once = max(0.0, (alone - operations(algorithm, shared)) / max(1, rows - groups))
            return [("compute", f"{counted_operations(alone / rows - once)} a row, {counted_operations(once)} a group")]
    return []


def event_rows(schema: pa.Schema, columns: Columns, algorithm: Algorithm, plan: Plan) -> list[tuple[str, str]]:
    """Describe how many operations a step takes for an event of users who have as many as are read together; nothing where
    rows are no events.

    Args:
        schema: of the rows.
    """
    if not (length := events_read(plan.algorithm.options)):
        return []
    rows = USERS * length
    user = next(slot.column for slot in columns.slots if slot.role == USER)
    table = pa.table([pa.nulls(rows, schema.field(name).type) for name in columns.inputs], names=list(columns.inputs))
    kind = schema.field(user).type
    if pa.types.is_string(kind) or pa.types.is_integer(kind):
        users = pa.array(np.repeat(np.arange(USERS, dtype=np.int8), length)).cast(kind)
        table = table.set_column(table.column_names.index(user), user, users)
    encoder = Encoder(columns, algorithm, plan.settings.seed, compact=False)
    chunk = encoder.unlabelled(table)
    chunk = chunk._replace(label=np.zeros((len(columns.labels), rows), np.float32))
    batch = next(encoder.batches(chunk, rows, BatchId(), Ladders(Ladder(), Ladder()), 0))
    count = counted_operations(operations(algorithm, batch) / rows)
    return [("compute", f"{count} an event, of users with {length:,} events")]


def operations(algorithm: Algorithm, batch: Batch) -> float:
    """Return the operations of floats of a training step, forward and backward, without those of operators and optimizers."""
    shapes: dict[str, tuple[int, ...]] = {table.name: (batch.size, table.dim) for table in algorithm.tables}
    shapes |= {spec.name: spec.shape for spec in algorithm.dense}
    parameters = {name: jax.ShapeDtypeStruct(shape, jnp.float32) for name, shape in shapes.items()}  # type: ignore[no-untyped-call]
    random = random_of(batch, 0) if algorithm.learns.random else None
    inputs = inputs_of(batch, np.zeros((len(batch.weight), len(batch.dense)), np.float32), random)
    with portable():
        found = jax.jit(step_of(algorithm)).lower(parameters, inputs, None).cost_analysis()
    return float((found or {}).get("flops", 0.0))


def counted_operations(count: float) -> str:
    return f"{count / MEGA:,.1f} MFLOP" if count >= MEGA else f"{count / KILO:,.1f} kFLOP"
