from __future__ import annotations

import pytest

from xpsql.platform.engines.spark_sql.lexer import tokenize, unquote
from xpsql.platform.engines.spark_sql.passage import Passage

# Spark 4: SELECT <literal>
LITERALS = {
    "'it''s'": "it's",
    r"'it\'s'": "it's",
    '"say ""x"""': 'say "x"',
    r"'a\nb\tc\\d'": "a\nb\tc\\d",
    r"'\u00e9\101'": "éA",
    r"'50\% \_ \q'": r"50\% \_ q",
    r"r'a\nb'": r"a\nb",
    "''": "",
}


@pytest.mark.parametrize(("literal", "text"), LITERALS.items())
def test_a_string_literal_stands_for_sparks_text(literal: str, text: str) -> None:
    (token,) = tokenize(Passage.of(literal))
    assert token.kind == "string"
    assert unquote(token.text) == text


def test_an_escape_of_no_character_is_its_letters() -> None:
    assert unquote(r"'\U0001F600 \U00110000 \U99999999'") == "\U0001f600 U00110000 U99999999"


def test_tokens_have_their_kind_and_place() -> None:
    text = "a.`b``c` <= 1.5e-3 -- end\n, .5D 10L 1a ${v} 'x'"
    tokens = tokenize(Passage.of(text))
    assert [(token.kind, token.text) for token in tokens] == [
        ("word", "a"),
        ("symbol", "."),
        ("quoted", "`b``c`"),
        ("symbol", "<"),
        ("symbol", "="),
        ("number", "1.5e-3"),
        ("symbol", ","),
        ("number", ".5D"),
        ("number", "10L"),
        ("word", "1a"),
        ("variable", "${v}"),
        ("string", "'x'"),
    ]
    assert all(text[token.start : token.end] == token.text for token in tokens)
    assert tokens[2].name == "b`c"
