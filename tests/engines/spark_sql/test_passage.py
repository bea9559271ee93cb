from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xpsql.platform.engines.spark_sql.passage import Passage
from xpsql.platform.errors import Position, StatementError

SCRIPT = "one two\nthree four\nfive"


@given(st.data())
def test_characters_that_were_not_replaced_come_from_where_they_stand(data: st.DataObject) -> None:
    marks = sorted(data.draw(st.sets(st.integers(0, len(SCRIPT)), min_size=2, max_size=6)))
    edits = [(a, b, data.draw(st.text("xy", max_size=9))) for a, b in zip(marks[::2], marks[1::2], strict=False)]
    passage = Passage.of(SCRIPT).replaced(edits)
    start, end = sorted(data.draw(st.tuples(*[st.integers(0, len(passage.text))] * 2)))
    part = passage.cut(start, end)
    assert part.text == passage.text[start:end]
    for offset, character in enumerate(part.text):
        origin = part.origin(offset)
        if character not in "xy":
            assert SCRIPT[origin] == character
        else:
            assert origin in {edit[0] for edit in edits}


def test_joined_passages_keep_their_places() -> None:
    whole = Passage.of(SCRIPT)
    joined = whole.cut(8, 14).joined(whole.inserted("INSERTED", 4), whole.cut(0, 3))
    assert joined.text == "three INSERTEDone"
    assert [joined.position(offset, "")[:2] for offset in (0, 6, 13, 14)] == [(2, 1), (1, 5), (1, 5), (1, 1)]


def test_an_error_inside_a_passage_gets_its_place_in_the_script() -> None:
    passage = Passage.of(SCRIPT).cut(8, 23)
    with pytest.raises(StatementError) as raised, passage.locating():
        raise StatementError("wrong", Position(2, 3, "ve"))
    assert raised.value.position == Position(3, 3, "ve")
    assert raised.value.message == "wrong"


@pytest.mark.parametrize("character", "\x0b\x0c\x1c\x85\u2028")
def test_only_a_line_feed_ends_a_line(character: str) -> None:
    passage = Passage.of(f"SELECT '{character}',\n  oops")
    assert passage.restated(Position(2, 3, "oops")) == Position(2, 3, "oops")


def test_an_error_without_place_gets_that_of_the_passage() -> None:
    with pytest.raises(StatementError) as raised, Passage.of(SCRIPT).cut(14, 23).locating():
        raise StatementError("wrong")
    assert raised.value.position == Position(2, 7, "four")
