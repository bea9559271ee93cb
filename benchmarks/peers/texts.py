"""A log as the text that alphaFM and xLearn read.

python -m benchmarks.peers.texts FILE alphafm|libsvm TARGET
"""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.peers.rows import hashed


def write(path: Path, form: str, target: Path) -> None:
    """Write a line a row: the label, and the features with their value 1, named (alphafm) or numbered (libsvm)."""
    with target.open("wb") as file:
        for batch in pq.ParquetFile(path).iter_batches(100_000):
            names = [name for name in batch.schema.names if name not in ("label", "ts")]
            words = [features(batch[name], name, i, form) for i, name in enumerate(names)]
            lines = pc.binary_join_element_wise(batch["label"].cast(pa.string()), *words, " ")
            file.write(("\n".join(lines.to_pylist()) + "\n").encode())


def features(values: pa.Array, name: str, column: int, form: str) -> pa.Array:
    if form == "libsvm":
        return pc.binary_join_element_wise(pa.array(hashed(values, column)).cast(pa.string()), "1", ":")
    return pc.binary_join_element_wise(
        name, pc.binary_join_element_wise(pc.fill_null(values.cast(pa.string()), ""), "1", ":"), "_"
    )


if __name__ == "__main__":
    write(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]))
