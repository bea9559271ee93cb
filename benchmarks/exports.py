"""Exports: how long ONNX Runtime takes to load mapped rows, and to look up keys whose pages are in memory.

python -m benchmarks.exports [rows]: 10 million rows of 16 floats, if nothing is said.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import TensorProto, helper

from xpsql.platform.images.layout import RowColumn, placed, write_rows
from xpsql.platform.portable.graph import IR_VERSION, GraphBuilder, StoredRows, lookup

WIDTH, REPEATS = 16, 10
BATCHES = (4_000, 100_000)
"""Keys at once: 100 candidates of 40 slots, and many."""


def fill(place: NDArray[np.int64], rows: NDArray[Any]) -> None:
    rows[place] = np.arange(len(place), dtype=np.float32)[:, None] % 1000


def graph_of(stored: StoredRows) -> onnx.ModelProto:
    build = GraphBuilder()
    build.add("Identity", lookup(build, stored, "keys", 0), output="rows")
    graph = helper.make_graph(
        build.nodes,
        "lookup",
        [helper.make_tensor_value_info("keys", TensorProto.INT64, ["n"])],
        [helper.make_tensor_value_info("rows", TensorProto.FLOAT, ["n", WIDTH])],
        build.constants,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=IR_VERSION)


def main(count: int) -> None:
    random = np.random.default_rng(1)
    keys = np.unique(random.integers(1 << 10, 1 << 64, count, np.uint64))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        begun = time.perf_counter()
        layout, place = placed(keys, (RowColumn("weights", "w", 0, WIDTH),), False, 0, bytes(16))
        write_rows(folder / "rows.bin", layout, keys, place, fill)
        print(f"place and write {len(keys):,} rows of {WIDTH} floats: {time.perf_counter() - begun:.1f} s")
        onnx.save(graph_of(StoredRows("rows.bin", layout)), folder / "model.onnx")
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        begun = time.perf_counter()
        session = onnxruntime.InferenceSession(folder / "model.onnx", options)
        first = session.run(None, {"keys": keys[:1].view(np.int64)})[0]
        print(f"load, and find the first row: {time.perf_counter() - begun:.3f} s")
        assert np.array_equal(first, np.zeros((1, WIDTH)))
        for part in np.array_split(keys.view(np.int64), 100):  # all pages of the file, once
            session.run(None, {"keys": part})
        for batch in BATCHES:
            times = []
            for _ in range(REPEATS):
                asked = np.concatenate(
                    [random.choice(keys, batch // 2), random.integers(1 << 10, 1 << 64, batch // 2, np.uint64)]
                ).view(np.int64)
                begun = time.perf_counter()
                session.run(None, {"keys": asked})
                times.append(time.perf_counter() - begun)
            print(f"{batch:,} keys, half of them absent: {np.median(times) / batch * 1e9:.0f} ns a key")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000)
