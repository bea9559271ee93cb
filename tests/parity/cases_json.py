"""JSON files that the engines read alike."""

from __future__ import annotations

from tests.parity.files import Case

VALUES = r"""1.9|1.0|"5"|" 5"|5|true|1e7|10000000.0|1.50|0.1|12345678901234567890|9223372036854775807|"x"|""|{"b":1.0}
[1, 2.0]|["x"]|[1,2]
"2020-01-02"|"2020-01-02 10:00:00"|"2020-01-02T10:00:00Z"|"2020-01-02 24:00:00"|"2020-02-30"|1577959200|null|"NaN"
"Infinity"|"+INF"
"1.5"|"true"|-0.0|300|"2020"|1.005|"1,234.5"|"\u00e9\ud83d\ude00"|0.00001|123456789.123|1e2|100|"2020-1-2"|-1.9|0.7
{"b":[1.5],"c":{"d":2}}"""
KINDS = ("TINYINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(10,2)", "BOOLEAN", "DATE", "TIMESTAMP", "STRING", "ARRAY<INT>",
         "ARRAY<STRING>", "MAP<STRING, STRING>", "STRUCT<b: STRING>")  # fmt: skip
LINES = "".join(f'{{"id": {place}, "v": {value}}}\n' for place, value in enumerate(VALUES.replace("\n", "|").split("|")))
USUAL = '{"u": "a", "n": 1, "x": 1.5, "t": "2020-01-02T10:00:00Z", "w": ["p", "q"]}\n' * 3

JSON: dict[str, Case] = {
    **{
        f"values of JSON as {kind}": Case(
            "json",
            {"a.json": LINES},
            columns=f"id INT, v {kind}",
            query="SELECT * FROM v WHERE v IS NOT NULL AND id NOT IN (6, 7, 8, 10, 11, 15, 36, 37, 38)",
        )
        for kind in KINDS
    },
    "usual objects": Case("json", {"a.json": USUAL}, columns="u STRING, n INT, x DOUBLE, t TIMESTAMP, w ARRAY<STRING>"),
    "usual objects with small integers": Case("json", {"a.json": USUAL}, columns="u STRING, n TINYINT, x DOUBLE"),
    "usual objects whose types are found": Case("json", {"a.json": USUAL}),
    "numbers and texts in one column": Case("json", {"a.json": '{"v": 1}\n{"v": "x"}\n{"v": 1.5}\n{"v": true}\n'}),
    "keys that repeat": Case("json", {"a.json": '{"u": "x", "u": "y", "n": 1}\n{"u": "z"}\n'}, columns="u STRING, n INT"),
    "an array of rows": Case(
        "json", {"a.json": '[{"v": 1.9, "s": 1.5},\n {"v": 2}]'}, {"multiLine": "true"}, "v INT, s STRING"
    ),
    "an object of several lines": Case("json", {"a.json": '{"v": 1.9,\n "v": 3}'}, {"multiLine": "true"}, "v INT"),
    "numbers beyond their types": Case(
        "json", {"a.json": '{"a": 300, "b": 40000, "c": 3000000000}\n'}, columns="a TINYINT, b SMALLINT, c INT"
    ),
}
DIFFERENT: dict[str, tuple[Case, str]] = {
    "bzip2": (Case("json", {"a.json.bz2": b"BZh"}), r"a\.json\.bz2 .*Decompress it, or compress it by gzip"),
}
"""Files that Spark reads and the embedded engine refuses, and what it says."""
