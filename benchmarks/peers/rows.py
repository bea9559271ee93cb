"""A log as tools take it that know no strings: hashed ids in one table, and labels."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from benchmarks.auc import auc

BUCKETS = 1 << 20

Ids = NDArray[np.int64]
Floats = NDArray[np.float32]
Learn = Callable[[Ids, Floats, int], Callable[[Ids], Floats]]


def read(path: Path) -> tuple[Ids, Floats]:
    """Return int64[rows, slots] in [0, BUCKETS) and labels float32[rows]."""
    file = pq.ParquetFile(path)
    names = [name for name in file.schema_arrow.names if name not in ("label", "ts")]
    words = [name for name in names if pa.types.is_string(file.schema_arrow.field(name).type)]
    file = pq.ParquetFile(path, read_dictionary=words)
    ids = np.empty((file.metadata.num_rows, len(names)), np.int64)
    labels, at = [], 0
    for batch in file.iter_batches(1 << 17, columns=["label", *names]):
        labels.append(batch["label"].to_numpy().astype(np.float32))
        for column, name in enumerate(names):
            ids[at : at + len(batch), column] = hashed(batch[name], column)
        at += len(batch)
    return ids, np.concatenate(labels)


def hashed(values: pa.Array, column: int) -> Ids:
    """Return the ids of a column's values; NULL is a value like any other."""
    encoded = values if pa.types.is_dictionary(values.type) else values.dictionary_encode()
    distinct = encoded.dictionary.to_numpy(zero_copy_only=False)
    salt = np.uint64(0x9E3779B97F4A7C15 * (column + 1) % (1 << 64))
    codes = np.append(pd.util.hash_array(distinct, categorize=False), np.uint64(0)) ^ salt
    codes = (codes * np.uint64(0xBF58476D1CE4E5B9)) >> np.uint64(44)
    return codes.astype(np.int64)[encoded.indices.fill_null(len(distinct)).to_numpy()]


def main(learn: Learn) -> None:
    """Train and score as a process of its own: TRAIN TEST DIM BEGAN, where BEGAN is time.monotonic() of whoever starts it.

    Prints a line of JSON: seconds from there to the trained model, seconds of it after reading, CPU seconds, and test AUC.
    """
    train, test, dim, began = sys.argv[1:]
    ids, labels = read(Path(train))
    start = time.monotonic()
    predict = learn(ids, labels, int(dim))
    ended, used = time.monotonic(), time.process_time()
    ids, labels = read(Path(test))
    reported = {"seconds": ended - float(began), "learning": ended - start, "cpu_seconds": used}
    print(json.dumps({**reported, "auc": auc(labels == 1, predict(ids).astype(np.float64))}))
