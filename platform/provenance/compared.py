"""What a version is beside one that was made again: files, rows and metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from ..display import plural
from .shown import sha256

if TYPE_CHECKING:
    from ...warehouse.manifest import Manifest
    from ...warehouse.version import Version

CLOSE = 1e-5
"""How far weights may be apart, relative to the largest, where another package or processor computed them."""
RUNS = 3
"""Of a training whose workers run freely, whose metrics are compared with the spread of so many."""
CERTAIN = 9.92
"""Student's t of RUNS - 1 degrees of freedom at 99 %, two-sided."""
COMPARED = ("auc", "logloss", "mae", "rmse", "recall")


class Compared(NamedTuple):
    """Something of a version beside the same of another one."""

    kind: str
    name: str
    expected: str | None
    found: str | None
    equal: bool


def compared(version: Version, made: Version, elsewhere: list[Compared]) -> tuple[list[Compared], str]:
    """Compare files and metrics of two versions, and say how equal they are; where something else computed them, weights may be
    CLOSE.
    """
    manifest, found = version.manifest, list[Compared]()
    theirs = {file.path: "\n".join(file.blocks) for file in made.manifest.files or ()}
    same = True
    for file in manifest.files or ():
        if file.path.startswith("profile/"):  # counts of rows, which say nothing of the model
            continue
        mine, other = "\n".join(file.blocks), theirs.get(file.path)
        same = same and mine == other
        found.append(Compared("file", file.path, short(mine), None if other is None else short(other), mine == other))
    if same:
        return found, "equal to the bit"
    tables = [rows_compared(version, made, table.name) for table in manifest.tables]
    if elsewhere and all(one.close for one in tables):
        apart = max(one.apart for one in tables)
        reason = ", ".join(f"another {one.name}" for one in elsewhere)
        return [one._replace(equal=True) for one in found], f"equal within {apart:.2g} ({reason})"
    rows = [one.differing for one in tables if one.differing is not None]
    return [*rows, *(one for one in found if not one.equal)], ""


class RowsCompared(NamedTuple):
    """The rows of a table of two versions.

    Attributes:
        apart: the largest difference, relative to the largest float; infinite where keys differ.
        differing: what differs, in words; None: nothing.
    """

    apart: float
    differing: Compared | None

    @property
    def close(self) -> bool:
        return self.apart <= CLOSE


def rows_compared(version: Version, made: Version, table: str) -> RowsCompared:
    """Compare the rows of a table, by key."""
    one, other = (sorted_rows(each, table) for each in (version, made))
    keys, others = one["key"].to_numpy(), other["key"].to_numpy()
    name = f"table {table}"
    if len(keys) != len(others) or (keys != others).any():
        lacking = np.setxor1d(keys, others)
        what = Compared("rows", name, f"{len(keys):,} rows", f"{len(others):,} rows, {len(lacking):,} keys of one alone", False)
        return RowsCompared(float("inf"), what)
    wrong, apart = np.zeros(len(keys), np.bool_), 0.0
    for field in one.schema:
        mine, theirs = (numbers(rows[field.name]) for rows in (one, other))
        wrong |= (mine != theirs).any(axis=1)
        if mine.dtype == np.float32 and mine.size:
            size = max(float(np.abs(mine).max()), 1e-30)
            apart = max(apart, float(np.abs(mine - theirs).max()) / size)
    if not wrong.any():
        return RowsCompared(apart, None)
    first = int(np.argmax(wrong))
    slots = {slot.number: slot.name for slot in version.manifest.slots}
    slot = slots.get(int(one["slot"][first].as_py()), "")
    count = int(wrong.sum())
    text = f"differs: {count:,} of {len(keys):,} {plural('row', len(keys))}, first key {keys[first]}, slot {slot}"
    return RowsCompared(apart, Compared("rows", name, f"{len(keys):,} rows", text, False))


def sorted_rows(version: Version, table: str) -> pa.Table:
    return pa.Table.from_batches(version.rows(table)).combine_chunks().sort_by("key")


def numbers(column: pa.ChunkedArray) -> Any:
    """Return a column as an array of lines: floats of a row, or the bytes of its state."""
    array = column.combine_chunks()
    if pa.types.is_fixed_size_list(array.type):
        return array.flatten().to_numpy(zero_copy_only=False).reshape(len(array), -1)
    if pa.types.is_fixed_size_binary(array.type):
        width = array.type.byte_width
        return np.frombuffer(b"".join(array.to_pylist()), np.float32).reshape(len(array), width // 4)
    return array.to_numpy(zero_copy_only=False).reshape(-1, 1)


def spread(manifest: Manifest, made: list[Version]) -> list[Compared]:
    """Compare the metrics of a version with those of several runs, no two of which are equal. One may lie where another run of
    the same training does in 99 of 100 cases (Student's prediction interval), or within what chance in the rows does to a
    metric: half of 1 / sqrt(examples) at most.
    """
    runs, found = len(made), []
    wide = CERTAIN * (1 + 1 / runs) ** 0.5
    least = max(1e-3, 0.5 / max(1, manifest.learned.examples) ** 0.5)
    for name in COMPARED:
        values = [value for one in made if (value := one.manifest.metrics.get(name)) is not None]
        expected = manifest.metrics.get(name)
        if expected is None or len(values) < runs:
            continue
        middle = float(np.mean(values))
        room = max(wide * float(np.std(values, ddof=1)), least * abs(middle))
        inside = abs(expected - middle) <= room
        found.append(Compared("metric", name, f"{expected:.6g}", f"{min(values):.6g} to {max(values):.6g}", inside))
    return found


def short(blocks: str) -> str:
    """Return a digest of a file's blocks."""
    return sha256(blocks.encode())[:16]
