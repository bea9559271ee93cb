"""model.json: what another program needs to know to make a row's inputs, and what lies beside it."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...algorithms.augments.pairs import SHORT
from ...algorithms.base import Algorithm
from ..images.layout import PAGE
from ..images.tables import FileOfTables
from ..input.scaling import Scales, deviation
from ..training.profiles.intervals import Width
from .graph import StoredRows
from .interface import ConstantKeys, Interface

if TYPE_CHECKING:
    from ...warehouse.version import Version

FILE, READY = "model.json", "READY"
FORMAT = 1
RULE = "xxhash64(source, CAST(value AS STRING)), XXH64 with seed 42, the hash of one argument the seed of the next"


def described(
    version: Version,
    algorithm: Algorithm,
    interface: Interface,
    scales: Scales,
    constants: ConstantKeys,
    absent: int,
    outputs: Sequence[tuple[str, int]],
) -> dict[str, Any]:
    """Return the entries of model.json about the model itself."""
    manifest, columns, dense = version.manifest, interface.columns, constants.dense.view(np.int64).tolist()
    kinds = {one.name: one.kind for one in (*interface.features, *interface.numbers, *interface.others)}
    slots: list[dict[str, Any]] = [
        {
            "name": slot.name, "column": slot.column, "field": slot.field, "kind": slot.kind, "input": kinds[slot.name],
            "type": slot.type, "source": slot.source, "hashed": slot.hashed, "raw": slot.raw, "dim": slot.dim,
            "length": slot.length, "group": slot.group, "members": list(slot.members),
            "weighted": slot.name in interface.weighted, "keys": [],
        }
        for slot in columns.slots
    ]  # fmt: skip
    by_name = {slot["name"]: slot for slot in slots}
    for number in interface.numbers:
        by_name[number.name]["keys"], dense = dense[: max(number.size, 1)], dense[max(number.size, 1) :]
    statistics = zip(columns.continuous, scales.slots.mean.tolist(), deviation(scales.slots).tolist(), strict=True)
    pairs = interface.pairs
    learned = None if pairs is None else {"item": columns.scalar[pairs.item].name, "history": columns.bags[pairs.history].name}
    return {
        "format": FORMAT,
        "xpsql": manifest.environment.get("xpsql", ""),
        "model": manifest.model,
        "version": version.number,
        "algorithm": manifest.algorithm.name,
        "labels": list(manifest.roles.labels),
        "classes": None if columns.classes is None else list(columns.classes.values),
        "outputs": [{"name": name, "floats": floats} for name, floats in outputs],
        "key_rule": RULE,
        "null_is_a_feature": columns.null_features,
        "absent": absent,
        "slots": slots,
        "intercept": next(iter(constants.intercept.view(np.int64).tolist()), None),
        "logarithmic": algorithm.traits.logarithmic,
        "standardisation": {slot.name: {"mean": mean, "deviation": spread} for slot, mean, spread in statistics},
        "label_standardisation": [
            {"mean": mean, "deviation": spread}
            for mean, spread in zip(scales.labels.mean.tolist(), deviation(scales.labels).tolist(), strict=True)
        ],
        "sums": None if algorithm.sums is None or columns.offered else algorithm.sums._asdict(),
        "pairs": None if learned is None else {**learned, "short": SHORT},
        "packaged": algorithm.learns.learner is not None,
        "transform": manifest.clauses.get("TRANSFORM"),
    }


def described_intervals(version: Version, level: float, widths: Sequence[Width]) -> dict[str, Any]:
    """Return the entry of model.json about the intervals of predictions."""
    labels = [
        {
            "label": label,
            "below": width.below,
            "above": width.above,
            "least": width.least if math.isfinite(width.least) else None,
        }
        for label, width in zip(version.manifest.roles.labels, widths, strict=True)
    ]
    return {"level": level, "labels": labels}


def described_rows(files: Sequence[FileOfTables], stored: Sequence[StoredRows]) -> list[dict[str, Any]]:
    """Return the entries of model.json about files of rows."""
    return [
        {
            "file": one.file,
            "rows": one.layout.rows,
            "primes": list(one.layout.primes),
            "floats": one.layout.width,
            "type": "float16" if one.layout.half else "float32",
            "keys_at": PAGE,
            "rows_at": one.layout.rows_at,
            "columns": [column._asdict() for column in file.columns],
        }
        for file, one in zip(files, stored, strict=True)
    ]


def checksums(folder: Path, names: Sequence[str]) -> Mapping[str, str]:
    """Return the SHA-256 of files."""
    found = {}
    for name in names:
        with (folder / name).open("rb") as file:
            found[name] = hashlib.file_digest(file, "sha256").hexdigest()
    return found
