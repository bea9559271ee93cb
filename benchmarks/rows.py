"""What it costs to score one row and a hundred in a process that has the model: microseconds, after the first call.

    python -m benchmarks.rows DATA WAREHOUSE ALGORITHM

DATA is a file of the log; the model is trained on its first 20,000 rows. Printed: `value us name`, a line each.
"""

from __future__ import annotations

import sys
import time
from statistics import median

import pyarrow.parquet as pq

TRAIN = "TRAIN OR REPLACE MODEL m USING {algorithm} IGNORE (ts) AS SELECT * FROM parquet.`{data}` LIMIT 20000"
SIZES = {"one row": 1, "100 rows": 100}
CALLS = 500


def main(data: str, warehouse: str, algorithm: str) -> None:
    """Train, score, and print the medians."""
    import xpsql
    from xpsql.platform.scoring.kept import scorer_of
    from xpsql.platform.scoring.weights import Weights

    with xpsql.connect(warehouse) as session:
        session.sql(TRAIN.format(algorithm=algorithm, data=data))
        version = session.models.version("m", None)
    scorer = scorer_of(version, Weights(version, 0, 1).pull)
    names = [name for name in pq.read_schema(data).names if name not in ("label", "ts")]
    table = pq.read_table(data, columns=names).slice(0, CALLS * max(SIZES.values()))
    for name, size in SIZES.items():
        pieces = [table.slice(start, size) for start in range(0, min(CALLS, table.num_rows // size) * size, size)]
        scorer.predict(pieces[0])
        spent = []
        for piece in pieces:
            begin = time.perf_counter()
            scorer.predict(piece)
            spent.append(time.perf_counter() - begin)
        print(f"{median(spent) * 1e6:.1f} us {algorithm}: {name} of {table.num_columns} columns")


if __name__ == "__main__":
    main(*sys.argv[1:])
