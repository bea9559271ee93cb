"""Scores rows with an export as serving (EXPORT MODEL ... FORMAT serving), by numpy; networks by onnxruntime.

    python reader.py FOLDER [BASE]    scores the rows of parity.parquet, and prints how far from their predictions it is

docs/exports.md has the format.
"""

from __future__ import annotations

import itertools
import json
import mmap
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

if __package__:
    from .keys import cross, feature_key, microseconds
else:  # it runs as a script
    from keys import cross, feature_key, microseconds  # type: ignore[import-not-found,no-redef]

Row = Mapping[str, Any]


class PortableRows:
    """A file of rows, mapped: keys in buckets of four, of which each key has two to be in."""

    def __init__(self, folder: Path, spec: Mapping[str, Any], base: PortableRows | None = None) -> None:
        self.base = base if spec["file"].startswith("changes") else None
        with (folder / spec["file"]).open("rb") as file:
            memory = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self.primes, width = spec["primes"], spec["floats"]
        places = 4 * self.primes[0]
        self.keys = np.frombuffer(memory, "<i8", places, spec["keys_at"]).reshape(-1, 4)
        self.rows = np.frombuffer(memory, np.dtype(spec["type"]), (places + 1) * width, spec["rows_at"]).reshape(-1, width)

    def place(self, keys: Any) -> Any:
        """Return the row of each key, int64[n]; the last one, of those that have none."""
        buckets = np.stack([keys % prime for prime in self.primes], axis=1)
        equal = (self.keys[buckets] == keys[:, None, None]).reshape(len(keys), 8)
        place = equal.argmax(axis=1)
        row = buckets[np.arange(len(keys)), place // 4] * 4 + place % 4
        return np.where(equal.any(axis=1), row, len(self.rows) - 1)

    def find(self, keys: Any) -> Any:
        """Return the rows of keys of any shape, float32[..., width]."""
        place = self.place(keys.reshape(-1))
        found, absent = self.rows[place].astype(np.float32).reshape(*keys.shape, -1), place == len(self.rows) - 1
        return found if self.base is None else np.where(absent.reshape(*keys.shape, 1), self.base.find(keys), found)


class PortableExport:
    """An export, whose rows stay on disk; a delta is read over the rows of `base`."""

    def __init__(self, folder: Path, base: PortableExport | None = None) -> None:
        if not (folder / "READY").exists():
            raise FileNotFoundError(f"{folder} has no READY: it is not whole.")
        self.folder, self.spec = folder, json.loads((folder / "model.json").read_text(encoding="utf-8"))
        bases = itertools.repeat(None) if base is None else base.files
        self.files: list[PortableRows] = [PortableRows(folder, *pair) for pair in zip(self.spec["rows"], bases, strict=False)]
        self.slots = {slot["name"]: slot for slot in self.spec["slots"]}
        self.absent = self.spec["absent"]
        self._session: Any = None

    def find(self, keys: Any) -> Any:
        """Return all that the model knows of keys, float32[..., floats]."""
        return np.concatenate([file.find(np.asarray(keys, np.int64)) for file in self.files], axis=-1)

    def values(self, slot: Row, row: Row) -> Iterator[tuple[Any, float]]:
        """Give a slot's values in a row, and the weight of each."""
        if slot["members"]:
            members = [list(self.values(self.slots[name], row)) for name in slot["members"]]
            for chosen in itertools.product(*members):
                yield cross(*(value for value, _ in chosen)), float(np.prod([weight for _, weight in chosen]))
            return
        value = row[slot["column"]]
        if slot["input"] == "key":
            if value is not None or self.spec["null_is_a_feature"]:
                yield value, 1.0
        elif slot["weighted"]:
            yield from ((key, weight) for key, weight in value or () if weight is not None and np.isfinite(weight))
        else:
            yield from ((one, 1.0) for one in value or () if one is not None)

    def features(self, slot: Row, row: Row) -> list[tuple[int, float]]:
        """Return the keys of a slot's features in a row, and their weights; of a sequence, NULLs keep their places."""
        if slot["input"] != "sequence":
            return [(feature_key(slot["source"], v, slot["hashed"], slot["raw"]), w) for v, w in self.values(slot, row)]
        elements = list(row[slot["column"]] or ())[-slot["length"] :]
        values = [one if one is None or not slot["field"] else one[slot["field"]] for one in elements]
        return [
            (self.absent if v is None else feature_key(slot["source"], v, slot["hashed"], slot["raw"]), 1.0) for v in values
        ]

    def of_event(self, slot: Row, value: Any, row: int) -> int:
        """Return the number of a user or a time; a row without a user has a user of its own."""
        if slot["input"] == "moment":
            return microseconds(value)
        return row if value is None else feature_key(slot["source"], value, slot["hashed"], slot["raw"])

    def inputs(self, rows: Sequence[Row]) -> dict[str, Any]:
        """Return the inputs of model.onnx, a graph over keys: of each slot keys, or numbers as they are."""
        found: dict[str, Any] = {}
        for name, slot in self.slots.items():
            if slot["input"] in ("user", "moment"):
                values = enumerate(row[slot["column"]] for row in rows)
                found[name] = np.array([self.of_event(slot, value, number) for number, value in values], np.int64)
                continue
            if slot["input"] in ("number", "vector"):
                size = slot["dim"] if slot["input"] == "vector" else 1
                lines = [np.array(row[slot["column"]] if row[slot["column"]] is not None else [np.nan] * size) for row in rows]
                found[name] = np.stack([line.astype(np.float32).reshape(size) for line in lines])
                found[name] = found[name] if slot["input"] == "vector" else found[name][:, 0]
                continue
            features = [self.features(slot, row) for row in rows]
            shape = len(rows), max(1, *(len(own) for own in features))
            keys, weights = np.full(shape, self.absent, np.int64), np.zeros(shape, np.float32)
            for line, own in enumerate(features):
                keys[line, : len(own)], weights[line, : len(own)] = [k for k, _ in own], [w for _, w in own]
            found |= {name: keys[:, 0] if slot["input"] == "key" else keys, f"{name}.weight": weights}
        return found

    def row_inputs(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the inputs of dense.onnx, a graph over rows."""
        found = dict(inputs)
        if pairs := self.spec["pairs"]:
            item, had = inputs[pairs["item"]][:, None], inputs[pairs["history"]]
            both = (item & ~np.int64(0xFFFFFFFF)) | ((had >> 32) & 0xFFFFFFFF)
            both = np.where((item == had) | (item == self.absent) | (had == self.absent), self.absent, both)
            share = np.sqrt(pairs["short"] / np.maximum((had != self.absent).sum(axis=1, keepdims=True), pairs["short"]))
            found[f"{pairs['history']}.weight"] = ((both != self.absent) * share).astype(np.float32)
            return found | {pairs["history"]: self.find(both)}
        masks: dict[str, list[str]] = {}
        for name, slot in self.slots.items():
            if slot["input"] in ("key", "keys", "sequence"):
                found[name] = self.find(inputs[name])
            if slot["input"] == "sequence":
                masks.setdefault(slot["group"], []).append(name)
        for names in masks.values():
            found[f"{names[0]}.mask"] = np.any([inputs[name] != self.absent for name in names], axis=0)
        return found

    def predict(self, rows: Sequence[Row]) -> dict[str, Any]:
        """Return what the model says of rows, by output."""
        if self._session is None:
            import onnxruntime

            self._session = onnxruntime.InferenceSession(self.folder / self.spec["graph"])
        given, names = self.row_inputs(self.inputs(rows)), [output["name"] for output in self.spec["outputs"]]
        wanted = {one.name for one in self._session.get_inputs()}
        said = self._session.run(names, {name: values for name, values in given.items() if name in wanted})
        return dict(zip(names, said, strict=True))


if __name__ == "__main__":
    import pyarrow.parquet as pq

    model = PortableExport(Path(sys.argv[1]), PortableExport(Path(sys.argv[2])) if len(sys.argv) > 2 else None)
    parity = pq.read_table(model.folder / model.spec["parity"])
    for name, said in model.predict(parity.to_pylist()).items():
        print(f"{name}: {len(said)} rows, largest difference {np.abs(said - np.array(parity[name].to_pylist())).max():.2g}")
