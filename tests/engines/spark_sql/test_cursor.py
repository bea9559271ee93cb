from __future__ import annotations

import pytest

from xpsql.platform.engines.spark_sql.cursor import Cursor
from xpsql.platform.errors import StatementError

VALUES = {
    "1": 1,
    "-1": -1,
    "1e-3": 0.001,
    "-.5": -0.5,
    "10L": 10,
    "2.5D": 2.5,
    "'text'": "text",
    "name": "name",
    "`a name`": "a name",
    "true": True,
    "FALSE": False,
    "null": None,
    "`true`": "true",
    "()": (),
    "(a)": ("a",),
    "(a, 'b', 3)": ("a", "b", 3),
    "((10, 1e-3), (1000, 1e-5))": ((10, 1e-3), (1000, 1e-5)),
    "(a AS b, c as `d e`)": (("a", "b"), ("c", "d e")),
}


@pytest.mark.parametrize(("text", "value"), VALUES.items())
def test_an_option_takes_every_kind_of_value(text: str, value: object) -> None:
    cursor = Cursor.of(f"(x = {text}, y = 1)")
    given = cursor.options()
    cursor.done()
    assert given["x"].value == value
    assert type(given["x"].value) is type(value)
    assert given["x"].position == (1, 2, f"x = {text}")


def test_accept_reads_all_of_its_words_or_none() -> None:
    cursor = Cursor.of("if not exists m")
    assert not cursor.accept("IF", "EXISTS")
    assert cursor.accept("IF", "NOT", "EXISTS")
    assert cursor.identifier("a name") == "m"
    assert cursor.at_end


def test_words_of_the_language_are_names_only_in_backticks() -> None:
    assert Cursor.of("`select`").identifier("a column") == "select"
    with pytest.raises(StatementError, match="Expected a column, got 'select'"):
        Cursor.of("select").identifier("a column")


def test_the_rest_is_given_as_written_with_its_place() -> None:
    cursor = Cursor.of("AS\n  SELECT  1 -- all\n")
    cursor.expect("AS")
    rest = cursor.remainder()
    assert rest.text == "SELECT  1"
    assert rest.position(0, "SELECT") == (2, 3, "SELECT")


def test_done_refuses_trailing_text() -> None:
    with pytest.raises(StatementError, match="Expected the end of the statement, got 'b'"):
        Cursor.of("b").done()
