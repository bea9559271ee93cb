"""Delta versions as relations of SQL: changed rows are stored once, and hide the rows beneath them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...warehouse.chains.links import ChainLink
from ...warehouse.chains.merge import new_keys
from ...warehouse.entries import TableEntry
from ...warehouse.rows import RowWriter, keys_of
from ...warehouse.scratch import scratch
from ...warehouse.version import Version
from ..engines.base import internal_name

if TYPE_CHECKING:
    from ..engines.base import Engine


def register_rows(version: Version, table: TableEntry, engine: Engine, view: str, stack: ExitStack) -> None:
    """Make the stored rows of a version's table a temporary view, until a stack ends.

    Raises:
        ModelError: a file is damaged, or the version was dropped meanwhile.
    """
    links = version.chain() if version.is_delta else ()
    temporary(engine, view, stack)
    if len(links) <= 1:
        engine.register(view, version.files(table.name))
        return
    beneath, rows, keys = (temporary(engine, internal_name(name), stack) for name in ("whole", "changed", "keys"))
    engine.register(beneath, version.files(table.name))
    changed, gone = register_changes(version, links[1:], table, engine, rows, stack)
    engine.register_rows(keys, keys_table(np.concatenate([changed, gone])))
    kept = f"SELECT r.* FROM {beneath} AS r LEFT ANTI JOIN {keys} AS k ON r.`key` = k.`key`"
    engine.execute(f"CREATE TEMPORARY VIEW {view} AS {kept} UNION ALL SELECT * FROM {rows}")


def register_changes(
    version: Version, links: Sequence[ChainLink], table: TableEntry, engine: Engine, view: str, stack: ExitStack
) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Make the newest rows that some versions of a chain have changed a temporary view, until a stack ends.

    Returns:
        Their keys, and the keys of removed rows.
    """
    path = stack.enter_context(scratch(version.folder.parents[2])) / "changed.parquet"
    seen, found = new_keys(), [np.empty(0, np.uint64)]
    with RowWriter(path, table) as writer:
        for batch in version.changed(links, table.name, seen):
            found.append(keys_of(batch).copy())
            writer.write(batch)
    engine.register(temporary(engine, view, stack), [path])
    changed = np.concatenate(found)
    return changed, np.setdiff1d(seen.keys()[0], changed, assume_unique=True)


def keys_table(keys: NDArray[np.uint64]) -> pa.Table:
    """Return keys as rows have them."""
    return pa.table({"key": pa.array(keys.view(np.int64))})


def temporary(engine: Engine, view: str, stack: ExitStack) -> str:
    """Drop a view that is about to be made when a stack ends: registered first, since Ctrl-C may come when it is made."""
    stack.callback(engine.execute, f"DROP VIEW IF EXISTS {view}")
    return view
