"""Files read as Spark SQL reads them; expected values are Spark 4's."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.engines.rows import rows
from xpsql.platform.engines.base import Staged
from xpsql.platform.engines.duckdb.engine import DuckDBEngine
from xpsql.platform.errors import StatementError

TYPED = """i,l,big,d,b,day,t,mixed,id,empty,nan,short
1,3000000000,99999999999999999999999,1.5,true,2020-01-02,2020-01-02 10:00:00,2020-01-01,1,,NaN,2020-1-2
-2,1,1,1e5,FALSE,2020-01-03,2020-01-02T10:00:00Z,2020-01-01 10:00:00,x,,1,2020-01-02
"""
RAGGED = """a,b,c
1,x,2.5
2,"",7,9
3
"4\\"u",null,m

6, sp ,x
"""


def types(engine: DuckDBEngine, relation: str) -> dict[str, str]:
    return {name: kind for name, kind, _ in rows(engine, f"DESCRIBE {relation}")}


def test_csv_without_options_has_no_header_and_is_all_strings(engine: DuckDBEngine, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,b\n1,\n")
    assert rows(engine, f"SELECT * FROM csv.`{tmp_path}/a.csv`") == [("a", "b"), ("1", None)]
    assert engine.schema(f"SELECT * FROM csv.`{tmp_path}/a.csv`") == pa.schema([("_c0", pa.string()), ("_c1", pa.string())])


def test_csv_types_are_inferred_from_all_values(engine: DuckDBEngine, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(TYPED)
    engine.execute(f"CREATE TEMP VIEW v USING csv OPTIONS (path '{tmp_path}/a.csv', header 'true', inferSchema 'true')")
    assert types(engine, "v") == {
        "i": "int",
        "l": "bigint",
        "big": "decimal(23,0)",
        "d": "double",
        "b": "boolean",
        "day": "date",
        "t": "timestamp",
        "mixed": "timestamp",
        "id": "string",
        "empty": "string",
        "nan": "double",
        "short": "timestamp",
    }
    last = rows(engine, "SELECT * FROM v")[1]
    moment = datetime(2020, 1, 2, 10, tzinfo=UTC)
    assert last[:8] == (-2, 1, Decimal(1), 1e5, False, date(2020, 1, 3), moment, datetime(2020, 1, 1, 10, tzinfo=UTC))


def test_white_space_around_values_of_csv_is_ignored_where_one_asks(engine: DuckDBEngine, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,b\n1,  x \n 2 ,y\n,  \n")
    both = "ignoreLeadingWhiteSpace true, ignoreTrailingWhiteSpace true"
    for number, (options, expected) in enumerate(
        [
            ("ignoreLeadingWhiteSpace true", [("1", "x "), ("2 ", "y"), (None, None)]),
            ("ignoreTrailingWhiteSpace true", [("1", "  x"), (" 2", "y"), (None, None)]),
            (f"{both}, inferSchema true", [(1, "x"), (2, "y"), (None, None)]),
        ]
    ):
        engine.execute(f"CREATE TEMPORARY VIEW v{number} USING csv OPTIONS (path '{tmp_path}/a.csv', header true, {options})")
        assert rows(engine, f"SELECT * FROM v{number}") == expected
    (tmp_path / "b.csv").write_text('a\n" x"\n')
    engine.execute(f"CREATE TEMPORARY VIEW v USING csv OPTIONS (path '{tmp_path}/b.csv', header true, {both})")
    assert rows(engine, "SELECT * FROM v") == [(" x",)]


def test_csv_rows_may_be_ragged_and_values_of_another_type_are_null(engine: DuckDBEngine, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(RAGGED)
    options = f"OPTIONS (path '{tmp_path}/a.csv', header true, nullValue 'null')"
    engine.execute(f"CREATE TEMPORARY VIEW v (x INT, y STRING, z DOUBLE) USING csv {options}")
    assert rows(engine, "SELECT * FROM v") == [
        (1, "x", 2.5),
        (2, "", 7.0),
        (3, None, None),
        (None, None, None),
        (6, " sp ", None),
    ]
    engine.execute(f"CREATE OR REPLACE TEMPORARY VIEW v USING csv {options}")
    assert rows(engine, "SELECT a FROM v WHERE b IS NULL") == [("3",), ('4"u',)]


def test_csv_values_that_are_empty_or_null_s_are_null(engine: DuckDBEngine, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('e,f,y\na,1,0\n,2,1\nNA,NA,0\n"",,1\n"NA",5,1\n')
    options = f"path '{tmp_path}/a.csv', header 'true', inferSchema 'true'"
    engine.execute(f"CREATE TEMPORARY VIEW v USING csv OPTIONS ({options}, nullValue 'NA')")
    assert types(engine, "v") == {"e": "string", "f": "int", "y": "int"}
    assert rows(engine, "SELECT e, f FROM v") == [("a", 1), (None, 2), (None, None), ("", None), (None, 5)]
    engine.execute(f"CREATE OR REPLACE TEMPORARY VIEW v USING csv OPTIONS ({options})")
    assert rows(engine, "SELECT e, f FROM v")[1:4] == [(None, "2"), ("NA", "NA"), (None, None)]


def test_csv_options_choose_separator_quote_and_comment(engine: DuckDBEngine, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("#note\nx\ty\n'a\tb'\t2\n")
    options = f"path '{tmp_path}/a.csv', header 'true', sep '\\t', quote '\\'', comment '#'"
    engine.execute(f"CREATE TEMPORARY VIEW v USING csv OPTIONS ({options})")
    assert rows(engine, "SELECT * FROM v") == [("a\tb", "2")]


def test_a_line_break_in_a_value_asks_for_multiline(engine: DuckDBEngine, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('a,b\n"x\ny",1\n')
    options = f"path '{tmp_path}/a.csv', header 'true'"
    engine.execute(f"CREATE TEMPORARY VIEW w USING csv OPTIONS ({options})")
    with pytest.raises(StatementError, match="multiLine 'true'"):
        engine.execute("SELECT * FROM w")
    engine.execute(f"CREATE TEMPORARY VIEW v USING csv OPTIONS ({options}, multiLine 'true')")
    assert rows(engine, "SELECT * FROM v") == [("x\ny", "1")]


def test_headers_that_repeat_or_are_missing_get_numbers(engine: DuckDBEngine, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,,A\n1,2,3\n")
    engine.execute(f"CREATE TEMPORARY VIEW v USING csv OPTIONS (path '{tmp_path}/a.csv', header 'true')")
    assert engine.columns("v") == ["a0", "_c1", "A2"]


def test_gzip_is_read_by_its_suffix(engine: DuckDBEngine, tmp_path: Path) -> None:
    with gzip.open(tmp_path / "a.csv.gz", "wt") as file:
        file.write("a,b\n1,x\n")
    engine.execute(f"CREATE TEMPORARY VIEW v USING csv OPTIONS (path '{tmp_path}/a.csv.gz', header 'true', inferSchema 'true')")
    assert rows(engine, "SELECT * FROM v") == [(1, "x")]
    with gzip.open(tmp_path / "a.json.gz", "wt") as file:
        file.write('{"a": 1}\n')
    assert rows(engine, f"SELECT * FROM json.`{tmp_path}/a.json.gz`") == [(1,)]


def test_json_columns_are_sorted_and_texts_stay_texts(engine: DuckDBEngine, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(
        '{"b": 1, "a": "2020-01-01", "d": true}\n{"b": 2.5, "c": {"z": 1, "y": [1, null]}, "a": null}\n'
    )
    engine.execute(f"CREATE TEMPORARY VIEW v USING json OPTIONS (path '{tmp_path}/a.json')")
    expected = {"a": "string", "b": "double", "c": "struct<y:array<bigint>,z:bigint>", "d": "boolean"}
    assert types(engine, "v") == expected
    assert rows(engine, "SELECT * FROM v")[1] == (None, 2.5, {"y": [1, None], "z": 1}, None)
    engine.execute(f"CREATE OR REPLACE TEMPORARY VIEW v (d STRING, b INT) USING json OPTIONS (path '{tmp_path}/a.json')")
    assert types(engine, "v") == {"d": "string", "b": "int"}


def test_integers_beyond_bigint_are_decimals(engine: DuckDBEngine, tmp_path: Path) -> None:
    great = 2**64 - 1
    pq.write_table(
        pa.table({"u": pa.array([great, 1], pa.uint64()), "l": pa.array([[great], []], pa.list_(pa.uint64()))}),
        tmp_path / "u.parquet",
    )
    (tmp_path / "u.json").write_text(f'{{"u": {great}, "l": [{great}]}}\n{{"u": 1, "l": []}}\n')
    decimal = pa.decimal128(20, 0)
    for table in (f"parquet.`{tmp_path}/u.parquet`", f"json.`{tmp_path}/u.json`"):
        assert engine.schema(f"SELECT u, l FROM {table}").types == [decimal, pa.list_(decimal)]
        assert rows(engine, f"SELECT u, l[0], u + 1 FROM {table} WHERE u > 1") == [(great, great, great + 1)]


def test_a_json_array_is_its_rows(engine: DuckDBEngine, tmp_path: Path) -> None:
    text = ' [{"a":1,"y":0},{"a":2,"y":1}]\n'
    (tmp_path / "a.json").write_text(text)
    with gzip.open(tmp_path / "b.json.gz", "wt") as file:
        file.write(text)
    for path in ("a.json", "b.json.gz"):
        query = f"SELECT * FROM json.`{tmp_path}/{path}`"
        assert engine.schema(query) == pa.schema([("a", pa.int64()), ("y", pa.int64())])
        assert rows(engine, query) == [(1, 0), (2, 1)]
    engine.execute(f"CREATE TEMPORARY VIEW v (y INT) USING json OPTIONS (path '{tmp_path}/a.json')")
    assert rows(engine, "SELECT * FROM v") == [(0,), (1,)]


@pytest.mark.parametrize("line", ['{"a":3,"b"', '{"a" 3}', "hello", '{"a":1}}', "[1, 2]", "7"])
def test_a_broken_line_of_json_is_named(engine: DuckDBEngine, tmp_path: Path, line: str) -> None:
    (tmp_path / "a.json").write_text(f'{{"a":1}}\n{line}\n{{"a":2}}\n')
    engine.execute(f"CREATE TEMPORARY VIEW v (a INT) USING json OPTIONS (path '{tmp_path}/a.json')")
    for query in (f"SELECT * FROM json.`{tmp_path}/a.json`", "SELECT * FROM v"):
        with pytest.raises(StatementError, match=r"a\.json has no JSON object in line 2\b.*multiLine 'true'"):
            engine.execute(query)


def test_a_csv_file_without_lines_needs_names_of_columns(engine: DuckDBEngine, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("")
    for statement in ("SELECT * FROM csv.`{}`", "CREATE TEMPORARY VIEW v USING csv OPTIONS (path '{}', inferSchema 'true')"):
        with pytest.raises(StatementError, match=r"a\.csv is empty.*Name them: CREATE TEMPORARY VIEW v \(a INT, \.\.\.\)"):
            engine.execute(statement.format(tmp_path))
    engine.execute(f"CREATE TEMPORARY VIEW v (x INT) USING csv OPTIONS (path '{tmp_path}')")
    assert rows(engine, "SELECT * FROM v") == []
    (tmp_path / "b.csv").write_text("1,2\n")
    assert rows(engine, f"SELECT * FROM csv.`{tmp_path}`") == [("1", "2")]


@pytest.mark.parametrize("packed", [False, True])
def test_escapes_in_csv_are_kept_but_before_quotes_and_escapes(engine: DuckDBEngine, tmp_path: Path, packed: bool) -> None:
    def read(values: Sequence[str]) -> list[object]:
        file = tmp_path / ("a.csv.gz" if packed else "a.csv")
        with gzip.open(file, "wt") if packed else file.open("w") as stream:
            stream.write("".join(f"{i},{value}\n" for i, value in enumerate(values)))
        engine.execute(f"CREATE OR REPLACE TEMPORARY VIEW v USING csv OPTIONS (path '{file}', nullValue '\\\\N')")
        return [value for _, value in rows(engine, "SELECT * FROM v")]

    filler = ["x" * 1000] * (1 << 10)  # what follows is in another chunk, or parted by its end
    assert read([r"c:\dir", r'"c:\dir"', r'"n\n"', r"\N", *filler]) == [r"c:\dir", r"c:\dir", r"n\n", None, *filler]
    assert read([*filler, r'"a\"b"', r'"\"q\""', r'"a\\b"', r'"c\\"']) == [*filler, 'a"b', '"q"', r"a\b", "c\\"]
    assert read([r"\\srv\share", *filler, r"a\\b"]) == [r"\\srv\share", *filler, r"a\\b"]
    assert read([r'"a\"b"', *filler, r"c:\dir", r'"c:\dir"']) == ['a"b', *filler, r"c:\dir", r"c:\dir"]


def test_a_json_file_that_is_not_compressed_as_it_says_is_named(engine: DuckDBEngine, tmp_path: Path) -> None:
    (tmp_path / "a.json.gz").write_text("garbage")
    with pytest.raises(StatementError, match=r"a\.json\.gz cannot be read as JSON: Not a gzipped file"):
        engine.execute(f"SELECT * FROM json.`{tmp_path}/a.json.gz`")


def test_a_csv_file_that_is_cut_is_named(engine: DuckDBEngine, tmp_path: Path) -> None:
    noise = "".join(f"{i * 2654435761 % 2**32}\n" for i in range(200_000))  # more than is read to find the columns
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(noise.encode())[:-1000])
    with pytest.raises(StatementError, match=r"a\.csv\.gz cannot be read as CSV: Compressed file ended"):
        engine.execute(f"CREATE TEMPORARY VIEW v USING csv OPTIONS (path '{tmp_path}')")


@pytest.mark.parametrize("value", ['"say ""hi"" now"', '"""hi"""', '"""hi"", she said"', '"3.5"" disk, new"'])
def test_doubled_quotes_in_csv_need_the_quote_as_escape(engine: DuckDBEngine, tmp_path: Path, value: str) -> None:
    (tmp_path / "a.csv").write_text(f'"a ""x""",b\n"x\ny",""\n1,{value}\n')
    options = f"path '{tmp_path}/a.csv', header 'true', multiLine 'true'"
    engine.execute(f"CREATE TEMPORARY VIEW v USING csv OPTIONS ({options}, escape '\"')")
    assert engine.columns("v") == ['a "x"', "b"]
    assert rows(engine, "SELECT * FROM v") == [("x\ny", None), ("1", value[1:-1].replace('""', '"'))]
    plain = 'a,b\n"{\\"k\\": \\"\\"}",x""y\n"a,","",\n'
    (tmp_path / "a.csv").write_text(plain)
    engine.execute(f"CREATE OR REPLACE TEMPORARY VIEW v USING csv OPTIONS ({options})")
    assert rows(engine, "SELECT * FROM v") == [('{"k": ""}', 'x""y'), ("a,", None)]
    (tmp_path / "a.csv").write_text(f"{plain}1,{value}\n")
    for columns in ("", "(a STRING, b STRING)"):
        with pytest.raises(StatementError, match=r"a\.csv doubles quotes .* in line 4;.*Read it with escape '\"'"):
            engine.execute(f"CREATE TEMPORARY VIEW w {columns} USING csv OPTIONS ({options})")


def test_a_folder_is_its_visible_files_in_sorted_order(engine: DuckDBEngine, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    for name, value in (
        ("b.parquet", 2),
        ("a.parquet", 1),
        ("_hidden.parquet", 8),
        (".hidden.parquet", 9),
        ("c[1]*.parquet", 3),
    ):
        pq.write_table(pa.table({"a": [value]}), folder / name)
    assert rows(engine, f"SELECT * FROM parquet.`{folder}`") == [(1,), (2,), (3,)]
    assert rows(engine, f"SELECT p.a FROM parquet.`{folder}/[ab].parquet` AS p") == [(1,), (2,)]
    assert rows(engine, f"SELECT * FROM parquet.`file://{folder}/a.parquet`") == [(1,)]
    assert rows(engine, f"SELECT * FROM parquet.`{folder}/c[1]*.parquet`") == [(3,)]


def test_paths_are_relative_to_the_current_folder(
    engine: DuckDBEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pq.write_table(pa.table({"a": [1]}), tmp_path / "a.parquet")
    monkeypatch.chdir(tmp_path)
    assert rows(engine, "SELECT * FROM parquet.`a.parquet`") == [(1,)]


def test_folders_named_column_is_value_are_partitions(engine: DuckDBEngine, tmp_path: Path) -> None:
    for day, n in (("2020-01-01", "1"), ("2020-01-02", "x%2Fy")):
        folder = tmp_path / f"day={day}" / f"n={n}"
        folder.mkdir(parents=True)
        pq.write_table(pa.table({"a": [1]}), folder / "0.parquet")
    assert rows(engine, f"SELECT * FROM parquet.`{tmp_path}`") == [(1, date(2020, 1, 1), "1"), (1, date(2020, 1, 2), "x/y")]
    assert isinstance(engine.scan(f"SELECT a, day FROM parquet.`{tmp_path}`"), Staged)


def test_types_that_spark_lacks_become_the_next_wider_ones(engine: DuckDBEngine, tmp_path: Path) -> None:
    table = pa.table(
        {
            "u8": pa.array([255], pa.uint8()),
            "u32": pa.array([4_000_000_000], pa.uint32()),
            "dict": pa.array(["x"]).dictionary_encode(),
            "ns": pa.array([1_000_000_000], pa.timestamp("ns")),
        }
    )
    pq.write_table(table, tmp_path / "a.parquet")
    query = f"SELECT *, u8 - 256 AS less FROM parquet.`{tmp_path}/a.parquet`"
    assert engine.schema(query).types[:4] == [pa.int16(), pa.int64(), pa.string(), pa.timestamp("us", tz="UTC")]
    assert rows(engine, query) == [(255, 4_000_000_000, "x", datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), -1)]


def test_a_column_of_a_type_that_spark_lacks_is_described_and_the_others_are_read(engine: DuckDBEngine, tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1], "t": pa.array([time(1, 2)], pa.time64("us"))}), tmp_path / "a.parquet")
    engine.execute(f"CREATE TEMPORARY VIEW v USING parquet OPTIONS (path '{tmp_path}/a.parquet')")
    assert types(engine, "v") == {"a": "bigint", "t": "time64[us]"}
    assert rows(engine, "SELECT a FROM v") == [(1,)]


@pytest.mark.parametrize("names", [["a", "A", "b"], ["a", "a", "b"], ["", "", "b"], ["", "a", "b"]])
def test_parquet_columns_must_have_names_of_their_own(engine: DuckDBEngine, tmp_path: Path, names: list[str]) -> None:
    file = tmp_path / "a.parquet"
    pq.write_table(pa.Table.from_arrays([pa.array([1])] * 3, names), file)
    wrong = f"a.parquet do not differ by their names: '{names[0]}'.*Rename them"
    for statement in ("SELECT b FROM parquet.`{}`", "CREATE TEMPORARY VIEW v USING parquet OPTIONS (path '{}')"):
        with pytest.raises(StatementError, match=wrong):
            engine.execute(statement.format(file))
    with pytest.raises(StatementError, match=wrong):
        engine.register("v", [file])


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("SELECT * FROM parquet.`{path}/nowhere`", "nowhere does not exist"),
        ("SELECT * FROM parquet.`{path}/*.none`", "does not exist"),
        ("SELECT * FROM parquet.`{path}`", "has no files to read"),
        ("SELECT * FROM parquet.`hdfs://bucket/a`", "Mount hdfs:// as a folder"),
        ("CREATE TEMPORARY VIEW v USING csv OPTIONS (header 'true')", "must have path"),
        ("CREATE TEMPORARY VIEW v USING csv OPTIONS (path '{path}', headr 'true')", "Did you mean header"),
        ("CREATE TEMPORARY VIEW v USING orc OPTIONS (path '{path}')", "Valid: parquet, csv, json"),
        ("CREATE VIEW v USING csv OPTIONS (path '{path}')", "temporary"),
        ("CREATE TEMPORARY VIEW v USING csv OPTIONS (path '{path}/_a.csv', header 'maybe')", "takes true or false"),
        ("SELECT * FROM parquet.`{path}/_a.csv`", "_a.csv"),
    ],
)
def test_files_that_cannot_be_read_are_errors_that_name_them(
    engine: DuckDBEngine, tmp_path: Path, statement: str, message: str
) -> None:
    (tmp_path / "_a.csv").write_text("a,b\n1,2\n")
    with pytest.raises(StatementError) as caught:
        engine.execute(statement.replace("{path}", str(tmp_path)))
    assert message in str(caught.value)
    assert "Error:" not in caught.value.message


@pytest.mark.parametrize("option", ["headr 'true'", "header 'maybe'"])
def test_an_option_that_is_wrong_is_pointed_at(engine: DuckDBEngine, tmp_path: Path, option: str) -> None:
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    statement = f"CREATE TEMPORARY VIEW v USING csv OPTIONS (path '{tmp_path}/a.csv', {option})"
    with pytest.raises(StatementError) as caught:
        engine.execute(statement)
    assert caught.value.position is not None
    assert caught.value.position.column == statement.index(option) + 1
