"""Folders named column=value that the engines read alike."""

from __future__ import annotations

import pyarrow as pa

from tests.parity.files import Case

ROW = pa.table({"id": [1]})
VALUES = [
    "7|2147483648|9223372036854775807|9223372036854775808|12345678901234567890123456789012345678|123456789012345678901234567890123456789",
    "01|+1|-1|1.|.5|1.5|-1.5|1e5|1e-5|NaN|Infinity|1_0|0x1f|true|10%3A00|2024|2024-01|x%2Fy|a b",
    "2024-02-28|2024-02-30|2024-2-8|2024-02-28 |12024-01-01|2024-02-28 10%3A00%3A00|2024-02-28 10%3A00%3A00.5",
    "2024-02-28 10|2024-02-28 10%3A00",
    "2024-02-28T10%3A00%3A00|2024-02-30 10%3A00%3A00|2024-02-28 25%3A00%3A00|2024-02-28-10",
]
PAIRS = [
    ("1", "x"), ("1", "1.5"), ("3000000000", "1.5"), ("12345678901234567890", "1"), ("12345678901234567890", "1.5"),
    ("12345678901234567890", "3000000000"), ("12345678901234567890", "1234567890123456789012"), ("1E5", "3"), ("1e3", "1.5"),
    ("2024-02-28", "2024-02-30"), ("2024-02-28", "2024-02-28 10%3A00%3A00"), ("1", "2024-01-01"), ("2024-01-01", "x"),
    ("1", "__HIVE_DEFAULT_PARTITION__"), ("01", "2"),
]  # fmt: skip


def folder(*values: str) -> Case:
    """Return the case of a column that has these values."""
    files = {f"k={value}/{place}.parquet": ROW for place, value in enumerate(values)}
    return Case("parquet", files, query="SELECT * FROM v ORDER BY k")


FOLDERS: dict[str, Case] = {
    "columns of folders in their order": Case("parquet", {"zone=eu/brand=acme/a.parquet": ROW}),
    "columns of folders in their order, CSV": Case("csv", {"zone=eu/brand=acme/a.csv": "1\n"}),
    "columns of folders in their order, JSON": Case("json", {"zone=eu/brand=acme/a.json": '{"z": 1, "a": 2}\n'}),
    "columns that files have, too": Case("parquet", {"b=9/a=1/a.parquet": pa.table({"a": [5], "id": [1]})}),
    "columns that the statement names": Case("parquet", {"b=9/a=1/a.parquet": ROW}, columns="id BIGINT, b STRING, a INT"),
    "columns that only some files have": Case(
        "parquet",
        {"a.parquet": pa.table({"id": [1]}), "b.parquet": pa.table({"id": [2], "x": [1.5]})},
        {"mergeSchema": "true"},
        query="SELECT * FROM v ORDER BY id",
    ),
    "lines in folders": Case(
        "csv",
        {"k=1/a.csv": 'a,b\n1,"x" y\n', "k=2/a.csv": "a,b\n#\n\n2,z\n"},
        {"header": "true", "comment": "#"},
        query="SELECT * FROM v ORDER BY k",
    ),
    **{f"the folder {value}": folder(value) for value in "|".join(VALUES).split("|")},
    **{f"the folders {' and '.join(pair)}": folder(*pair) for pair in PAIRS},
}
DIFFERENT: dict[str, tuple[Case, str]] = {
    "K and k": (
        folder("1")._replace(files={"K=1/a.parquet": ROW, "k=2/a.parquet": ROW}),
        "folders of other columns, K=... and k=.*in the same letters",
    ),
    "files beside folders": (folder("1")._replace(files={"k=1/a.parquet": ROW, "b.parquet": ROW}), "folders of other columns"),
}
"""Folders that Spark reads and the embedded engine refuses, and what it says."""
