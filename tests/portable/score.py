"""Scores exports in a process without xpsql, and prints how far from their predictions it is, as JSON by folder.

python score.py EXAMPLES FOLDER...: the folder of examples/portable, and exports as serving and onnx.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pyarrow.parquet as pq

sys.path.insert(0, sys.argv[1])
from reader import PortableExport  # type: ignore[import-not-found]

TYPES = {"tensor(int64)": np.int64, "tensor(float)": np.float32}


def by_keys(model: Any, rows: list[dict[str, Any]], parity: Any) -> list[dict[str, Any]]:
    """Return what model.onnx says of the inputs that the export has, and of those that are made of rows."""
    session = onnxruntime.InferenceSession(model.folder / model.spec["graph"])
    names = [output["name"] for output in model.spec["outputs"]]
    kinds = {one.name: TYPES[one.type] for one in session.get_inputs()}
    stored = {name: np.array(parity[f"input.{name}"].to_pylist(), kind) for name, kind in kinds.items()}
    made = model.inputs(rows)
    return [
        dict(zip(names, session.run(names, {name: given[name] for name in kinds}), strict=True)) for given in (stored, made)
    ]


def by_package(model: Any, rows: list[dict[str, Any]]) -> dict[str, Any]:
    import xgboost

    inputs, columns, kinds, names = model.inputs(rows), [], [], []
    for kind in ("key", "number", "vector"):
        for slot in (one for one in model.spec["slots"] if one["input"] == kind):
            own = model.find(inputs[slot["name"]])[:, 0] - 1 if kind == "key" else inputs[slot["name"]]
            columns.append(np.where(own < 0, np.nan, own)[:, None] if kind == "key" else own.reshape(len(rows), -1))
            width = columns[-1].shape[1]
            kinds += ["c" if kind == "key" else "q"] * width
            names += [slot["name"]] if kind != "vector" else [f"{slot['name']}({i})" for i in range(width)]
    booster = xgboost.Booster(model_file=model.folder / model.spec["graph"])
    data = xgboost.DMatrix(np.hstack(columns), feature_names=names, feature_types=kinds, enable_categorical=True)
    return {model.spec["outputs"][0]["name"]: booster.predict(data)}


def largest(folder: Path) -> float:
    model, differences = PortableExport(folder), [0.0]
    whole = pq.read_table(folder / model.spec["parity"])
    for start, rows in ((0, 1), (1, 7), (8, len(whole))):
        parity = whole.slice(start, rows)
        listed = parity.to_pylist()
        if model.spec["packaged"]:
            said = [by_package(model, listed)]
        else:
            said = by_keys(model, listed, parity) if model.spec["kind"] == "onnx" else [model.predict(listed)]
        for one in said:
            for output in model.spec["outputs"]:
                wanted = np.array(parity[output["name"]].to_pylist())
                differences.append(float((np.abs(one[output["name"]] - wanted) / np.maximum(1, np.abs(wanted))).max()))
    return max(differences)


onnxruntime.set_default_logger_severity(3)
print(json.dumps({folder: largest(Path(folder)) for folder in sys.argv[2:]}))
assert "xpsql" not in sys.modules
