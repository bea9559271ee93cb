"""Print what the checksums of a version's rows take of the CPU seconds of reading them from memory.

python -m benchmarks.checksums ROWS FOLDER ROUNDS
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

from xpsql.warehouse import stored
from xpsql.warehouse.manifest import TableEntry
from xpsql.warehouse.rows import RowWriter, read_rows
from xpsql.warehouse.stored import FileEntry, VersionFile, run_of, sums_of

CHUNK = 1 << 16


def main() -> None:
    rows, folder, rounds = int(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    file, spent = written(rows, folder), [0.0]
    matches = stored.matches

    def timed(content: bytes | memoryview, written: str) -> bool:
        begin = time.thread_time()
        try:
            return matches(content, written)
        finally:
            spent[0] += time.thread_time() - begin

    stored.matches = timed
    shares = []
    for _ in range(max(rounds, 3)):
        spent[0], begin = 0.0, time.process_time()
        for _ in read_rows([file], None, None):
            pass
        shares.append((time.process_time() - begin, spent[0]))
    whole, sums = min(shares)
    print(f"{file.size / sums / 1e9} GB/s checksums of rows")
    print(f"{100 * sums / whole} % checksums of rows, part of reading {rows:,} rows from memory")


def written(rows: int, folder: Path) -> VersionFile:
    """Write the rows of a linear model as a version has them."""
    random = np.random.default_rng(1)
    keys = np.sort(random.integers(0, 2**63, rows).astype(np.uint64) * 2).view(np.int64)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "part-00000.parquet"
    with RowWriter(path, TableEntry("weights", 1, {"w": 1, "z": 1, "n": 1}), run_of(rows)) as writer:
        for begin in range(0, rows, CHUNK):
            own = keys[begin : begin + CHUNK]
            columns = [
                pa.array(own) if field.name == "key" else pa.array(random.random(len(own))).cast(field.type, safe=False)
                for field in writer.schema
            ]
            writer.write(pa.RecordBatch.from_arrays(columns, schema=writer.schema))
    kept = json.loads(sums_of(path).read_text(encoding="utf-8"))
    return VersionFile(path, FileEntry("rows/weights/part-00000.parquet", rows, tuple(kept["blocks"])))


if __name__ == "__main__":
    main()
