"""CSV files that the engines read alike."""

from __future__ import annotations

import bz2
import gzip

import pyarrow as pa

from tests.parity.files import Case

HEADER = {"header": "true"}
BOTH = {**HEADER, "ignoreLeadingWhiteSpace": "true", "ignoreTrailingWhiteSpace": "true"}
QUOTES = 'id,q,z\n1,"best" laptop,9\n2,12" tv,8\n3,"a" "b",7\n4,"ok",6\n5,"c"d,5\n6," e ",4\n7,"f" ,3\n8,"",2\n9,,1\n'
ESCAPES = 'id,q\n1,"a\\"b"\n2,c:\\dir\n3,"c:\\dir"\n4,"d\\\\"\n5,\\"e\n6,"f\\" g" h\n7,i\\,j\n'
COMMENTS = 'id,url,n\n#note\n1,http://a.example/p#top,5\n2,"x # y",6\n3,#fff,7\n4,c#,8\n #5,no,9\n'
FILLER = "".join(f"{i},plain {i}\n" for i in range(40_000))
NUMBERS = """4| 4|4 |+4|-4|4.0|4e0|nan|NaN|Inf|-Inf|Infinity|-Infinity|+Infinity|inf|INF|1d|1f|1L|0x1p3|.5|5.|1,5|1_0
99999999999|127|128
1e400|1e-400|0x10|1.005|1.0051|12345678.9|1e2|1E+2| 1.5 |1.5e|e5|--1|0b1|1 000|00012|-0|infinity|123456789012345678901"""
TIMES = """2020-01-02|2020-1-2|2020-1|2020|+2020-01-02| 2020-01-02|2020-01-02 |2020-02-30|2020-01-02T|2020-01-02 10
2020-01-02 10:00
2020-01-02 10:00:00|2020-01-02T10:00:00|2020-01-02 10:00:00.123456789|2020-01-02 10:00:00Z|2020-01-02 10:00:00+01:00
2020-01-02 10:00:00 +01:00|2020-01-02 10:00:00+0100|2020-01-02 10:00:00+1|2020-01-02 10:00:00 Europe/Berlin
2020-01-02 24:00:00
2020-01-02 1:2:3|2020/01/02|20200102|0001-01-01|2020-01-02 10:00:60|2020-01-02 10:00:00 UTC|2020-01-02 10:00:00 UTC+1|epoch
now
2020-01-02 BC|2020-01-02 (BC)|infinity|2024-10-27 02:30:00 Europe/Berlin|2024-03-31 02:30:00 Europe/Berlin
2020-01-02 10:00:00 CST"""
TRUTHS = "true|TRUE|True|false| true|T|yes|1|0"


def lines(values: str) -> str:
    return "".join(f"{number};{value}\n" for number, value in enumerate(values.replace("\n", "|").split("|")))


def typed(values: str, kind: str) -> Case:
    """Return the case of texts in a column of a type."""
    return Case("csv", {"a.csv": lines(values)}, {"sep": ";"}, f"id INT, v {kind}", "SELECT * FROM v WHERE v IS NOT NULL")


def found(values: str) -> Case:
    """Return the case of a type that is found for one value."""
    return Case("csv", {"a.csv": f"1;{values}\n"}, {"sep": ";", "inferSchema": "true"})


CSV: dict[str, Case] = {
    "text after a closing quote": Case("csv", {"a.csv": QUOTES}, HEADER),
    "text after a closing quote where the quote is the escape": Case("csv", {"a.csv": QUOTES}, {**HEADER, "escape": '"'}),
    "text after a closing quote with nullValue": Case("csv", {"a.csv": QUOTES}, {**HEADER, "nullValue": "NULL"}),
    "text after a closing quote of another character": Case(
        "csv", {"a.csv": QUOTES.replace('"', "'").replace(",", "|")}, {**HEADER, "quote": "'", "sep": "|"}
    ),
    "text after a closing quote late in the file": Case(
        "csv",
        {"a.csv": f'id,q\n{FILLER}40000,"best" laptop\n'},
        {**HEADER, "inferSchema": "true"},
        query="SELECT * FROM v WHERE id > 39998 ORDER BY id",
    ),
    "text after a closing quote in the second file": Case(
        "csv", {"a.csv": "id,q\n1,x\n", "b.csv": 'id,q\n2,"a" b\n'}, HEADER, query="SELECT * FROM v ORDER BY id"
    ),
    "text after a closing quote in a value of several lines": Case(
        "csv", {"a.csv": 'id,q\n1,"best" laptop\n2,"x\ny" z\n3,"u\nv"\n'}, {**HEADER, "multiLine": "true"}
    ),
    "escapes of both kinds": Case("csv", {"a.csv": ESCAPES}, HEADER),
    "no quotes": Case("csv", {"a.csv": QUOTES}, {**HEADER, "quote": ""}),
    "doubled quotes where the quote is the escape": Case(
        "csv", {"a.csv": 'id,q\n1,"say ""hi"" now"\n2,""""\n3,"""a"", b"\n'}, {**HEADER, "escape": '"'}
    ),
    "comments only at the beginning of lines": Case("csv", {"a.csv": COMMENTS}, {**HEADER, "comment": "#"}),
    "comments before a header": Case(
        "csv",
        {"a.csv": "#x\n\n;y\n" + COMMENTS, "b.csv": COMMENTS},
        {**HEADER, "comment": "#"},
        query="SELECT count(*) AS n FROM v",
    ),
    "comments of another character": Case("csv", {"a.csv": "a,b\n1,x;y\n;skip\n2,z\n"}, {**HEADER, "comment": ";"}),
    "comments with several lines in a value": Case(
        "csv", {"a.csv": 'a,b\n#c\n1,x#y\n2,"u\nv"\n'}, {**HEADER, "comment": "#", "multiLine": "true"}
    ),
    "lines of white space": Case("csv", {"a.csv": "a,b,c\n1,2\n   \n\t\n\n5,,6\n"}, HEADER),
    "empty lines of one column": Case("csv", {"a.csv": "a\n1\n\n2\n\n"}, HEADER),
    "a quoted nothing in one column": Case("csv", {"a.csv": 'a\n1\n""\n2\n'}, {**HEADER, "nullValue": "x"}),
    "a line of three million characters": Case(
        "csv", {"a.csv": f"a,b\n1,{'x' * 3_000_000}\n2,y\n"}, HEADER, query="SELECT a, length(b) AS n FROM v ORDER BY a"
    ),
    "carriage returns": Case("csv", {"a.csv": 'a,b\r\n1,"x"\r\n2,y\r\n'}, HEADER),
    "line feeds with and without carriage returns": Case("csv", {"a.csv": "a,b\r\n1,x\n2,y\r\n3,z\n"}, HEADER),
    "carriage returns alone": Case("csv", {"a.csv": "a,b\n1,x\n2,y\r3,z\n"}, HEADER),
    "a byte order mark": Case("csv", {"a.csv": b'\xef\xbb\xbf"a",b\n1,x\n'}, HEADER),
    "ISO-8859-1": Case("csv", {"a.csv": 'a,b\n1,Zürich\n2,"É" x\n'.encode("latin-1")}, {**HEADER, "encoding": "ISO-8859-1"}),
    "white space around values": Case("csv", {"a.csv": 'a,b\n1,  x \n 2 ,"y " \n, " z"  \n'}, BOTH),
    "gzip": Case("csv", {"a.csv.gz": gzip.compress(b'a,b\n1,"x" y\n', mtime=0)}, HEADER),
    "a separator of several characters": Case("csv", {"a.csv": 'a||b\n1||"x||y"\n2||z|w\n'}, {**HEADER, "sep": "||"}),
    "ragged rows": Case(
        "csv", {"a.csv": 'a,b,c\n1,x,2.5\n2,"",7,9\n3\n"4\\"u",null,m\n\n6, sp ,x\n'}, {**HEADER, "nullValue": "null"}
    ),
    "spaces beside numbers": Case("csv", {"a.csv": "id,v\n1, 4\n2,5 \n3,6\n"}, {**HEADER, "inferSchema": "true"}),
    "whole numbers with exponents": Case("csv", {"a.csv": "v,w,x\n1e5,5.,1\n2E+3,7.,4e0\n"}, {**HEADER, "inferSchema": "true"}),
    "numbers beyond bigint": Case(
        "csv", {"a.csv": "v,w\n1,3000000000\n9223372036854775808,9223372036854775808\n"}, {**HEADER, "inferSchema": "true"}
    ),
    **{f"numbers as {kind}": typed(NUMBERS, kind) for kind in ("TINYINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(10,2)")},
    **{f"times as {kind}": typed(TIMES, kind) for kind in ("DATE", "TIMESTAMP")},
    "words as BOOLEAN": typed(TRUTHS, "BOOLEAN"),
    **{f"the type of {value!r}": found(value) for value in "|".join((NUMBERS, TIMES, TRUTHS)).replace("\n", "|").split("|")},
}
DIFFERENT: dict[str, tuple[Case, str]] = {
    "carriage returns alone beside others": (
        Case("csv", {"a.csv": "a,b\r\n1,x\n2,y\r3,z\n"}, HEADER),
        r"a\.csv has lines that end with a carriage return, and lines",
    ),
    "bzip2": (
        Case("csv", {"a.csv.bz2": bz2.compress(b"a,b\n1,x\n")}, HEADER),
        r"a\.csv\.bz2 .*Decompress it, or compress it by gzip",
    ),
    "doubled quotes": (
        Case("csv", {"a.csv": f'id,q\n{FILLER}1,"say ""hi"" now"\n'}, HEADER),
        r"a\.csv doubles quotes inside a quoted value in line 40002;.*Read it with escape '\"'",
    ),
    "UTF-16": (Case("csv", {"a.csv": "a\n1\n".encode("utf-16")}, {**HEADER, "encoding": "UTF-16"}), "iconv -f UTF-16 -t UTF-8"),
}
"""Files that Spark reads and the embedded engine refuses, and what it says."""
ZSTD = Case("csv", {"a.csv.zst": pa.compress(b'a,b\n1,"x" y\n', codec="zstd", asbytes=True)}, HEADER)
"""What Spark reads only with native libraries of Hadoop."""
