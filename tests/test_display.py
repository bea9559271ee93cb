from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pytest

from xpsql.platform.display import cell, html_table, listed, size_text, text_table

TABLE = pa.table(
    {
        "name": ["a", "bcd", None],
        "x": [0.123456789, 1e-12, float("nan")],
        "n": [1, 20, 300],
        "m": pa.array([[("k", 1.5)], None, []], pa.map_(pa.string(), pa.float64())),
    }
)


def test_text_is_aligned_with_numbers_to_the_right() -> None:
    assert text_table(TABLE, 10).split("\n") == [
        "name         x    n  m",
        "----  --------  ---  --------",
        "a     0.123457    1  {k: 1.5}",
        "bcd      1e-12   20  NULL",
        "NULL       nan  300  {}",
    ]


def test_rows_left_out_are_counted() -> None:
    assert text_table(TABLE, 2).endswith("\n... 1 more row")


def test_characters_of_two_cells_are_aligned() -> None:
    assert text_table(pa.table({"a": ["漢字", "abc"], "n": [1, 2]}), 2).split("\n")[2:] == ["漢字  1", "abc   2"]


def test_maps_are_shown_as_such_within_others_and_by_any_key() -> None:
    inner = pa.map_(pa.string(), pa.int64())
    by_list = pa.array([[([1, 2], {"a": [("k", 1)]})]], pa.map_(pa.list_(pa.int64()), pa.struct([("a", inner)])))
    assert text_table(pa.table({"m": by_list}), 1).endswith("\n{[1, 2]: {a: {k: 1}}}")
    assert text_table(pa.table({"l": pa.array([[[("k", 1)], None]], pa.list_(inner))}), 1).endswith("\n[{k: 1}, NULL]")


def test_a_table_without_rows_shows_its_columns() -> None:
    assert text_table(TABLE.slice(0, 0), 5).startswith("name")


def test_html_is_escaped() -> None:
    shown = html_table(pa.table({"<a>": ["<b>&", "c"], "n": [1, 2]}), 1)
    assert '<th style="text-align: left">&lt;a&gt;</th><th>n</th>' in shown
    assert '<td style="text-align: left">&lt;b&gt;&amp;</td><td>1</td>' in shown
    assert shown.endswith("<p>... 1 more row</p>")


def test_a_cell_is_one_line() -> None:
    assert cell("a\nb") == "a b"
    assert cell([True, None, b"\x01", {"k": 2.0}]) == "[true, NULL, 01, {k: 2}]"


def test_tabs_and_control_characters_do_not_break_a_row() -> None:
    assert cell("a\tb\r\x1b[31mc\x85d") == "a b  [31mc d"
    assert text_table(pa.table({"a\tb\n": ["x\ty"]}), 1).split("\n") == ["a b", "----", "x y"]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (1234.56789, "1234.57"),
        (123456.789, "123456.789"),
        (100000.5, "100000.5"),
        (-1234567.89, "-1234567.89"),
        (4235610.0, "4235610"),
        (100000.1 + 0.2, "100000.3"),
        (999999999999998.0, "999999999999998"),
        (1e15, "1e+15"),
        (float("inf"), "inf"),
    ],
)
def test_a_float_has_six_digits_or_all_of_a_large_one(value: float, shown: str) -> None:
    assert cell(value) == shown


def test_a_time_is_shown_without_its_zone_to_the_millisecond() -> None:
    time = datetime(2013, 12, 5, 7, 8, 9, 123456, tzinfo=UTC)
    assert cell(time) == "2013-12-05 07:08:09.123"
    assert cell(time.replace(microsecond=0)) == "2013-12-05 07:08:09"


def test_a_summary_is_a_block_of_its_own_and_as_wide_as_its_own_texts() -> None:
    rows = listed(pa.table({"property": ["rows", "time", "slot user"], "value": ["10", "1 s", "categorical"]}), 2)
    assert text_table(rows, 10).split("\n") == [
        "property  value",
        "--------  -----",
        "rows      10",
        "time      1 s",
        "",
        "slot user  categorical",
    ]
    assert text_table(rows, 2).split("\n")[2:] == ["rows      10", "time      1 s", "... 1 more row"]
    assert [part.count("<tr>") for part in html_table(rows, 10).split("<tbody")] == [1, 2, 1]


@pytest.mark.parametrize(
    ("size", "text"), [(25_600, "25 KiB"), (3 << 19, "1.5 MiB"), (1_234 << 20, "1,234 MiB"), (12 << 30, "12.0 GiB")]
)
def test_a_size_has_the_unit_that_suits_it(size: int, text: str) -> None:
    assert size_text(size) == text
