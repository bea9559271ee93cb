"""CPU seconds of HISTORY over one relation on the embedded engine: `python -m benchmarks.histories [rows]`."""

from __future__ import annotations

import os
import resource
import sys
import tempfile

os.environ.setdefault("NPROC", "1")

import xpsql

USERS_PER_ROW = 1 / 100
KEEP = 50
STATEMENTS = {
    "all rows": f"HISTORY(item, {KEEP}) OVER (PARTITION BY user ORDER BY ts)",
    "a quarter of the rows": f"HISTORY(item, {KEEP}) FILTER (WHERE click = 1) OVER (PARTITION BY user ORDER BY ts)",
}


def cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def main(rows: int) -> None:
    with tempfile.TemporaryDirectory() as warehouse, xpsql.connect(warehouse) as session:
        session.sql(f"""CREATE TABLE log AS
            SELECT abs(xxhash64(id)) % {int(rows * USERS_PER_ROW)} AS user, abs(xxhash64(id, 1)) % {rows // 3} AS ts,
                   CAST(abs(xxhash64(id, 2)) % 1000 AS INT) AS item, CAST(abs(xxhash64(id, 3)) % 4 = 0 AS INT) AS click
            FROM range({rows})""")
        for name, history in STATEMENTS.items():
            began = cpu()
            (row,) = (
                session.sql(f"SELECT sum(size(h)) AS items FROM (SELECT user, ts, {history} AS h FROM log)").arrow().to_pylist()
            )
            print(f"{rows:,} rows, lists of {KEEP} of {name}: {cpu() - began:.1f} CPU s, {row['items']:,} items")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000)
