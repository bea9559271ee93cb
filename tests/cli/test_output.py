from __future__ import annotations

import io
import sys
from datetime import date
from decimal import Decimal

import click
import pyarrow as pa
import pytest

from xpsql.platform.cli.output import write_csv, write_json, write_table
from xpsql.platform.cli.screen import fitted
from xpsql.platform.display import listed, text_table


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_a_drawn_table(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    write_table(pa.table({"name": ["[red]a[/red]"] * 101, "n": range(101)}))
    shown = terminal.getvalue()
    assert "[red]a[/red]" in shown
    assert "... 1 more row" in shown


def test_a_table_wider_than_the_terminal_is_plain_and_unfolded(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("COLUMNS", "30")
    rows = pa.table({"version": [300_000], "created": [date(2013, 1, 31)], "statement": ["SELECT 1"]})
    write_table(rows)
    assert terminal.getvalue() == f"\n{text_table(rows, 1)}\n\n"


def test_what_is_listed_is_folded_and_not_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("COLUMNS", "30")
    rows = listed(pa.table({"property": ["rows", "note"], "value": ["10", "select what recurs of it"]}), 1)
    write_table(rows)
    for shown in (click.unstyle(terminal.getvalue()), fitted(rows, 30)):
        lines = [line.rstrip() for line in shown.splitlines()]
        assert max(map(len, lines)) <= 30
        assert [line.split() for line in lines if "─" not in line] == [
            *([], ["property", "value"], ["rows", "10"]),
            *([], ["note", "select", "what"], ["recurs", "of", "it"], []),
        ]


def test_options_that_do_not_fit_a_terminal_are_paragraphs(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("COLUMNS", "34")
    rows = {
        "option": ["l2"],
        "type": ["float"],
        "default": ["1"],
        "range": [""],
        "help": ["penalty of large weights, per example"],
    }
    write_table(listed(pa.table(rows), 0))
    assert terminal.getvalue().strip().splitlines() == [
        "l2: type float; default 1",
        "    penalty of large weights, per",
        "    example",
    ]


def test_a_drawn_table_folds_nothing_of_what_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("COLUMNS", "40")
    write_table(pa.table({"version": [300_000] * 101, "created": [date(2013, 1, 31)] * 101}))
    assert "300000   2013-01-31" in terminal.getvalue()
    assert "─" in terminal.getvalue()
    assert terminal.getvalue().endswith("\n... 1 more row\n\n")


def test_bytes_are_base64_in_csv(capsys: pytest.CaptureFixture[str]) -> None:
    write_csv(pa.table({"b": [b"\x00\xfe\xc4", None]}))
    assert capsys.readouterr().out == 'b\nAP7E\n""\n'


def test_values_without_json_of_their_own_are_text(capsys: pytest.CaptureFixture[str]) -> None:
    rows = {"d": [date(2013, 1, 31)], "x": [Decimal("1.50")], "b": [b"\x00\x01"]}
    maps = pa.array([[("k", float("inf"))]], pa.map_(pa.string(), pa.float64()))
    write_json(pa.table({**rows, "m": maps}))
    assert capsys.readouterr().out == '{"d": "2013-01-31", "x": 1.5, "b": "AAE=", "m": {"k": null}}\n'


def test_nested_values_are_json_in_csv(capsys: pytest.CaptureFixture[str]) -> None:
    write_csv(pa.table({"m": pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64())), "l": [["é", None]]}))
    assert capsys.readouterr().out == 'm,l\n"{""k"": 1}","[""é"", null]"\n'


def test_maps_within_lists_are_objects_of_json(capsys: pytest.CaptureFixture[str]) -> None:
    write_json(pa.table({"l": pa.array([[[("k", 1)]]], pa.list_(pa.map_(pa.string(), pa.int64())))}))
    assert capsys.readouterr().out == '{"l": [{"k": 1}]}\n'
