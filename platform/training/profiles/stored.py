"""A profile as a version keeps it: a row for each slot, prediction and label."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ....warehouse.calibration import read_table
from ...ps.keys import slot_seed
from ..metrics.profile import BUCKETS, Profiled, ProfileTally

if TYPE_CHECKING:
    from ....warehouse.version import Version
    from ...input.columns import Columns
    from ...input.slot import Slot

TOP, QUANTILES = 64, 129
CATEGORY, NUMBER, PREDICTION, LABEL = "category", "number", "prediction", "label"
PROFILE = pa.schema(
    [
        pa.field("slot", pa.string(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("rows", pa.int64(), nullable=False),
        pa.field("nulls", pa.int64(), nullable=False),
        pa.field("values", pa.int64(), nullable=False),
        pa.field("distinct", pa.int64()),
        pa.field("new_share", pa.float64()),
        pa.field("buckets", pa.list_(pa.int64())),
        pa.field("edges", pa.list_(pa.float32())),
        pa.field("top", pa.list_(pa.struct([("key", pa.int64()), ("count", pa.int64())]))),
        pa.field("quantiles", pa.list_(pa.float32())),
        pa.field("mean", pa.float64()),
        pa.field("squares", pa.float64()),
    ]
)

Ints = NDArray[np.int64]
Keys = NDArray[np.uint64]
Known = Callable[[Keys], NDArray[np.bool_]]
NONE: Any = None


class SlotProfile(NamedTuple):
    """What is known of the values of a slot in some rows.

    Attributes:
        rows: that were looked at; nulls: of them, without a value; values: occurrences, several of an array.
        distinct: values that occurred, of a category.
        new_share: the share of occurrences whose key has no row in the version before; None where nobody knows.
        buckets: int64[256], of categories by the key, of numbers by `edges`, of predictions by log odds.
        top: keys and counts of the most frequent categories.
        quantiles: float32[129], of numbers; mean, squares: their mean, and that of their squares.
    """

    slot: str
    kind: str
    rows: int
    nulls: int
    values: int
    distinct: int | None = None
    new_share: float | None = None
    buckets: Ints = NONE
    edges: NDArray[np.float32] = NONE
    top: tuple[Keys, Ints] = NONE
    quantiles: NDArray[np.float32] = NONE
    mean: float | None = None
    squares: float | None = None

    @property
    def null_share(self) -> float | None:
        """The share of rows without a value."""
        return self.nulls / self.rows if self.rows else None


Profiles = dict[str, SlotProfile]


def categories(columns: Columns) -> list[Slot]:
    """Return the slots whose values are counted by key: no crosses, whose sources are."""
    others = {slot.name for slot in (*columns.continuous, *columns.vectors)}
    return [slot for slot in columns.features if not slot.members and slot.name not in others]


def profiled(columns: Columns, labels: int, classes: bool, shift: float = 0.0) -> Profiled:
    """Return what is profiled of rows with these columns; see Profiled."""
    slots = tuple(slot.number for slot in categories(columns))
    return Profiled(slots, len(columns.continuous), classes, labels, shift)


def profiles_of(
    tally: ProfileTally, columns: Columns, edges: Mapping[str, NDArray[np.float32]], known: Known | None
) -> Profiles:
    """Return the profiles of the slots of some rows.

    Args:
        edges: of numbers, those of the first version, as far as it has them.
        known: tells which keys have rows in the version before; None where there is none.
    """
    found, single = {}, {slot.name for slot in columns.scalar}
    for place, slot in enumerate(categories(columns)):
        found[slot.name] = category(slot, place, tally, known, slot.name in single)
    for sample, slot in zip(tally.sample, columns.continuous, strict=True):
        found[slot.name] = number(slot.name, tally.rows, sample, edges.get(slot.name))
    for predictions, sums, label in zip(tally.predictions, tally.sums, columns.labels, strict=False):
        name, mean = f"({label})", sums / max(tally.rows, 1)
        counts = np.pad(predictions, (0, BUCKETS - len(predictions))) if predictions.any() else NONE
        found[name] = SlotProfile(name, PREDICTION, tally.rows, 0, tally.rows, buckets=counts, mean=float(mean[1]))
        if sums[0]:
            found[label] = SlotProfile(label, LABEL, tally.rows, 0, tally.rows, mean=float(mean[0]))
    return found


def category(slot: Slot, place: int, tally: ProfileTally, known: Known | None, single: bool) -> SlotProfile:
    """Return the profile of a slot of categories.

    Args:
        single: a row has one value at most, so that a row without one has none.
    """
    own = slice(*np.searchsorted(tally.places, [place, place + 1]))
    keys, counts = tally.keys[own], tally.counts[own]
    null = int(counts[keys == np.uint64(slot_seed(slot.source))].sum())
    top = largest(counts)
    new = None
    if known is not None and counts.sum():
        new = float(counts[~known(keys)].sum() / counts.sum())
    values = int(tally.buckets[place].sum())
    nulls = null + (max(0, tally.rows - values) if single else 0)
    return SlotProfile(
        slot.name, CATEGORY, tally.rows, nulls, values, len(keys), new, tally.buckets[place], top=(keys[top], counts[top])
    )


def largest(counts: Ints) -> NDArray[np.intp]:
    """Return the places of the TOP largest, in their order, of equal ones the first."""
    if len(counts) > TOP:
        least = np.partition(counts, -TOP)[-TOP]
        more, same = np.flatnonzero(counts > least), np.flatnonzero(counts == least)
        some = np.concatenate([more, same[: TOP - len(more)]])
    else:
        some = np.arange(len(counts))
    return some[np.argsort(-counts[some], kind="stable")]


def number(name: str, rows: int, sample: NDArray[np.float32], edges: NDArray[np.float32] | None) -> SlotProfile:
    there = sample[~np.isnan(sample)].astype(np.float64)
    missing = (len(sample) - len(there)) / max(len(sample), 1)
    nulls = round(missing * rows)
    if not len(there):
        return SlotProfile(name, NUMBER, rows, nulls, rows - nulls)
    finite = there[np.isfinite(there)] if np.isfinite(there).any() else np.zeros(1)
    finite.sort()
    if edges is None:
        edges = quantiles_of(finite, np.arange(1, BUCKETS) / BUCKETS)
    buckets = np.bincount(np.searchsorted(edges, there.astype(np.float32), "right"), minlength=BUCKETS)
    quantiles = quantiles_of(finite, np.linspace(0, 1, QUANTILES))
    mean, squares = float(finite.mean()), float((finite**2).mean())
    return SlotProfile(
        name, NUMBER, rows, nulls, rows - nulls, buckets=buckets, edges=edges, quantiles=quantiles, mean=mean, squares=squares
    )


def quantiles_of(ascending: NDArray[np.float64], at: NDArray[np.float64]) -> NDArray[np.float32]:
    """Return quantiles of sorted numbers, linear between them."""
    return np.interp(at * (len(ascending) - 1), np.arange(len(ascending)), ascending).astype(np.float32)


def table_of(profiles: Profiles) -> pa.Table:
    """Return profiles as a version keeps them."""
    rows = list(profiles.values())
    columns = []
    for field in PROFILE:
        values: list[Any] = [getattr(one, field.name) for one in rows]
        if field.name == "top":
            offsets, keys = flat([None if one is None else one[0].view(np.int64) for one in values], pa.int64())
            counts = flat([None if one is None else one[1] for one in values], pa.int64())[1]
            items = pa.StructArray.from_arrays([keys, counts], ["key", "count"])
        elif pa.types.is_list(field.type):
            offsets, items = flat(values, field.type.value_type)
        else:
            columns.append(pa.array(values, field.type))
            continue
        begins = [None if one is None else at for one, at in zip(values, offsets.tolist(), strict=False)]  # None: NULL
        columns.append(pa.ListArray.from_arrays(pa.array([*begins, int(offsets[-1])], pa.int32()), items, field.type))
    return pa.table(columns, PROFILE)


def flat(values: list[NDArray[Any] | None], kind: pa.DataType) -> tuple[NDArray[np.int32], pa.Array]:
    """Return where each array begins and the last one ends, and their elements; an array that is missing is empty."""
    sizes = [0 if one is None else len(one) for one in values]
    there = np.concatenate([one for one in values if one is not None] or [np.empty(0)])
    elements = pa.array(there.astype(kind.to_pandas_dtype(), copy=False))  # a cast by Arrow takes 40 ms of imports
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32), elements


def profiles_in(version: Version) -> Profiles:
    """Return the profiles that a version keeps, none where it keeps none.

    Raises:
        ModelError: its file is damaged.
    """
    files = version.stored("profile")
    if not files:
        return {}
    found = {}
    for row in read_table(files[0]).to_pylist():
        for name, kind in (("buckets", np.int64), ("edges", np.float32), ("quantiles", np.float32)):
            row[name] = None if row[name] is None else np.array(row[name], kind)
        if row["top"] is not None:
            keys = np.array([one["key"] for one in row["top"]], np.int64).view(np.uint64)
            row["top"] = keys, np.array([one["count"] for one in row["top"]], np.int64)
        found[row["slot"]] = SlotProfile(**row)
    return found


def edges_in(profiles: Profiles) -> dict[str, NDArray[np.float32]]:
    """Return the edges of numbers that versions after this one keep."""
    return {name: one.edges for name, one in profiles.items() if one.edges is not None}


def known_in(version: Version) -> Known:
    """Return what tells which keys have rows in a version."""
    if not version.manifest.tables:
        return lambda keys: np.zeros(len(keys), bool)
    parts = [batch.column(0).to_numpy() for batch in version.rows(version.manifest.tables[0].name, ["key"])]
    there = np.concatenate([np.empty(0, np.int64), *parts]).view(np.uint64)
    return lambda keys: np.isin(keys, there)
