"""Measure what auto_session costs xftrl: CPU seconds of whole trainings with and without it, in turns, the ratio as the median
of the rounds' ratios; and how the load of its features spreads over shards.

python -m benchmarks.rates LOG.parquet ROUNDS [LIMIT]
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path

from xpsql import connect
from xpsql.platform.progress import SilentReporter

USES = {"without": "", "with": "OPERATORS (auto_session)"}
LOADS = (
    "SELECT sum(updates) AS load FROM (SELECT pmod(shiftright(key, 54), 1024) AS slice, updates FROM ML.WEIGHTS(MODEL {})) "
    "GROUP BY CAST(floor(slice * {} / 1024) AS INT)"
)


def main() -> None:
    data, rounds = sys.argv[1], int(sys.argv[2])
    query = f"SELECT * FROM parquet.`{data}`" + (f" LIMIT {sys.argv[3]}" if len(sys.argv) > 3 else "")
    seconds: dict[str, list[float]] = {use: [] for use in USES}
    with tempfile.TemporaryDirectory() as folder, connect(Path(folder), reporter=SilentReporter()) as session:
        session.sql(f"CREATE TABLE log AS {query}")
        for number in range(rounds + 1):
            for use, operators in USES.items():
                before = time.process_time()
                statement = f"USING xftrl IGNORE (ts) {operators} WITH (workers = 1) AS SELECT * FROM log"
                session.sql(f"TRAIN OR REPLACE MODEL {use}_rates {statement}")
                if number:  # the first compiles
                    seconds[use].append(time.process_time() - before)
        for use, found in seconds.items():
            manifest = session.models.version(f"{use}_rates").manifest
            print(f"{use}: {statistics.median(found):.2f} s of CPU, AUC while learning {manifest.metrics}")
        ratios = [one / other for one, other in zip(seconds["with"], seconds["without"], strict=True)]
        print(f"with over without: {statistics.median(ratios):.2f} of {', '.join(f'{ratio:.2f}' for ratio in ratios)}")
        for shards in (2, 4, 16):
            loads = [load for (load,) in session.sql(LOADS.format("without_rates", shards)).fetchall()]
            print(f"{shards} shards: the busiest has {max(loads) * len(loads) / sum(loads):.3f} of the mean load")


if __name__ == "__main__":
    main()
