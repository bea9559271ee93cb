"""HISTORY in queries: the same lists as the definition gives, on both engines, and statements that cannot have it."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import xpsql
from tests.cases import costly, costly_after_first, lengthy
from tests.sparks import needs_spark_4
from xpsql.platform.errors import StatementError
from xpsql.platform.session import Session


class Event(NamedTuple):
    id: int
    user: str | None
    ts: int | None
    item: str | None
    click: int | None


class Asked(NamedTuple):
    keep: int
    within: int | None
    clicked: bool

    def sql(self, over: str) -> str:
        within = "" if self.within is None else f", {self.within}"
        return f"HISTORY(item, {self.keep}{within}) {'FILTER (WHERE click = 1)' if self.clicked else ''} {over}"

    def of(self, user: str | None, ts: int | None, events: Sequence[Event]) -> list[str]:
        """Return the definition: the last values of the user's events that are strictly earlier, ties in order of the value."""
        if user is None or ts is None:
            return []
        earlier = [
            (event.ts, event.item)
            for event in events
            if event.user == user and event.ts is not None and event.ts < ts and event.item is not None
            if not self.clicked or event.click == 1
        ]
        last = sorted(earlier)[-self.keep :]
        return [item for at, item in last if self.within is None or at >= ts - self.within]


def events_of(rows: Sequence[tuple[str | None, int | None, str | None, int | None]]) -> list[Event]:
    return [Event(number, *row) for number, row in enumerate(rows)]


def table_of(events: Sequence[Event]) -> pa.Table:
    types = [("id", pa.int64()), ("user", pa.string()), ("ts", pa.int32()), ("item", pa.string()), ("click", pa.int32())]
    return pa.Table.from_pylist([event._asdict() for event in events], pa.schema(types))


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    with xpsql.connect(tmp_path_factory.mktemp("histories")) as session:
        yield session


def rows_of(session: Session, statement: str) -> list[tuple[Any, ...]]:
    found = session.sql(statement).arrow()
    return list(zip(*(column.to_pylist() for column in found.columns), strict=True))


def world(draw: random.Random) -> list[Event]:
    """Return a few events, of which most tie with others, and some have no user, time or value."""
    return events_of(
        [
            (
                draw.choice("ab"),
                draw.choice([*range(6), None]),
                draw.choice(["x", "y", "z", None]),
                draw.choice([0, 1, 1, None]),
            )
            if draw.random() < 0.9
            else (None, 3, "x", 1)
            for _ in range(draw.randrange(30))
        ]
    )


ASKED = (Asked(1, None, False), Asked(2, 3, True), Asked(3, None, True), Asked(4, 2, False))


@lengthy
def test_lists_are_what_the_definition_gives(session: Session) -> None:
    draw = random.Random(11)
    logs = [world(draw) for _ in range(1000)]
    tables = [table_of(events).append_column("world", pa.array([n] * len(events), pa.int64())) for n, events in enumerate(logs)]
    session.engine.register_rows("log", pa.concat_tables(tables))
    lists = ", ".join(f"{asked.sql('OVER (PARTITION BY world, user ORDER BY ts)')} AS h{n}" for n, asked in enumerate(ASKED))
    found = rows_of(session, f"SELECT world, id, {lists} FROM log")
    assert len(found) == sum(map(len, logs)) > 10_000
    for place, number, *histories in found:
        event = logs[place][number]
        assert histories == [asked.of(event.user, event.ts, logs[place]) for asked in ASKED]


@costly
def test_both_engines_give_the_definition_over_one_relation_and_between_two(tmp_path: Path, engine: str | SparkSession) -> None:
    draw = random.Random(5)
    events = events_of(
        [
            (
                draw.choice(["a", "b", "c", None]),
                draw.choice([None, *range(150)]),
                draw.choice("wxyz"),
                draw.choice([0, 1, None]),
            )
            for _ in range(600)
        ]
    )
    shown = [(number, draw.choice("abd"), draw.randrange(160)) for number in range(200)]
    own, other = Asked(50, None, True), Asked(3, 20, False)
    with xpsql.connect(tmp_path / "warehouse", engine=engine) as session:
        session.engine.register_rows("log", table_of(events))
        session.engine.register_rows(
            "shown", pa.table({"id": [s[0] for s in shown], "who": [s[1] for s in shown], "at": [s[2] for s in shown]})
        )
        found = rows_of(
            session,
            f"""
            WITH l AS (SELECT * FROM log WHERE id >= 0)
            SELECT e.id, e.user AS u, {own.sql("OVER (PARTITION BY e.user ORDER BY e.ts)")} AS clicked,
                   size({other.sql("OVER (PARTITION BY e.user ORDER BY e.ts)")}) + e.id AS n,
                   transform(HISTORY(struct(item, click), 2) OVER (PARTITION BY user ORDER BY ts), x -> x.item) AS two
            FROM l e WHERE id < 500 ORDER BY e.ts, e.id DESC""",
        )
        kept = [event for event in events if event.id < 500]
        assert [row[0] for row in found] == [e.id for e in sorted(kept, key=lambda e: (e.ts is not None, e.ts or 0, -e.id))]
        for number, user, clicked, n, two in found:
            row = events[number]
            assert user == row.user
            assert clicked == own.of(row.user, row.ts, kept)
            assert n == len(other.of(row.user, row.ts, kept)) + number
            assert len(two) == len(Asked(2, None, False).of(row.user, row.ts, kept))
        found = rows_of(
            session,
            """SELECT s.id, HISTORY(e.item, 3, 20) AS h FROM shown s
               HISTORY JOIN (SELECT * FROM log) e ON e.user = s.who AND s.at > e.ts WHERE s.id >= 20""",
        )
        assert dict(found) == {number: other.of(who, at, events) for number, who, at in shown if number >= 20}
        assert any(len(h) == 3 for _, h in found)


@costly_after_first
@needs_spark_4
def test_a_star_stands_beside_a_history(tmp_path: Path, engine: str | SparkSession) -> None:
    with xpsql.connect(tmp_path / "warehouse", engine=engine) as session:
        session.sql(
            "CREATE VIEW v AS SELECT *, HISTORY(item, 2) OVER (PARTITION BY user ORDER BY ts) AS h FROM VALUES "
            "('a', 1, 'x'), ('a', 2, 'y'), ('b', 3, 'z') AS t (user, ts, item)"
        )
        assert session.sql("SELECT * FROM v ORDER BY ts").arrow().to_pylist() == [
            {"user": "a", "ts": 1, "item": "x", "h": []},
            {"user": "a", "ts": 2, "item": "y", "h": ["x"]},
            {"user": "b", "ts": 3, "item": "z", "h": []},
        ]  # fmt: skip


OVER = "OVER (PARTITION BY user ORDER BY ts)"


@lengthy
@pytest.mark.parametrize(
    ("statement", "text", "message"),
    [
        (f"SELECT HISTORY(item) {OVER} FROM log", "HISTORY", "Expected HISTORY\\(value, n"),
        (f"SELECT HISTORY(item, id) {OVER} FROM log", "HISTORY", "a whole number of values from 1 to 10,000, got id"),
        ("SELECT HISTORY(item, 5) FROM log", "HISTORY", "HISTORY needs OVER"),
        ("SELECT HISTORY(item, 5) OVER (PARTITION BY user) FROM log", "HISTORY", "one order, and no frame"),
        ("SELECT HISTORY(item, 5) OVER (PARTITION BY user ORDER BY ts DESC) FROM log", "HISTORY", "Leave DESC out"),
        (f"SELECT count(*) FROM log WHERE size(HISTORY(item, 5) {OVER}) > 1", "HISTORY", "among the columns of SELECT"),
        (f"SELECT user, HISTORY(item, 5) {OVER} FROM log GROUP BY user", "GROUP", "cannot be in one SELECT"),
        (f"SELECT DISTINCT HISTORY(item, 5) {OVER} FROM log", "DISTINCT", "cannot be in one SELECT"),
        (f"SELECT a.*, b.*, HISTORY(a.item, 5) {OVER} FROM log a, log b", "b", "has one \\* at most"),
        ("SELECT HISTORY(e.item, 5) FROM log t HISTORY JOIN log e ON e.user = t.user", "ON", "one time that is earlier"),
        (
            "SELECT HISTORY(e.item, 5) FROM log t HISTORY JOIN log e ON e.user = t.user AND e.ts > t.ts",
            "ON",
            "Expected HISTORY",
        ),
        (f"SELECT nowhere + 1, HISTORY(item, 5) {OVER} FROM log", "nowhere", "nowhere"),
        (f"SELECT user, HISTORY(nowhere, 5) {OVER} FROM log", "nowhere", "There is no column nowhere"),
        ("SELECT user, HISTORY(item, 5) OVER (PARTITION BY nobody ORDER BY ts) FROM log", "nobody", "no column nobody"),
        (
            "SELECT HISTORY(e.item, 5) FROM log t HISTORY JOIN nothing e ON e.user = t.user AND e.ts < t.ts",
            "nothing",
            "There is no table or view nothing",
        ),
        (f"SELECT HISTORY(item, 5, -1) {OVER} FROM log", "HISTORY", "an age, INTERVAL n DAYS or a number from 0, got -1"),
        (f"SELECT HISTORY(item, 5, -INTERVAL 7 DAYS) {OVER} FROM log", "HISTORY", "a number from 0, got -INTERVAL"),
        (f"SELECT HISTORY(item, 5, '7') {OVER} FROM log", "HISTORY", "a number from 0, got '7'"),
        (f"SELECT HISTORY(item, 5, ts) {OVER} FROM log", "HISTORY", "a number from 0, got ts"),
        (
            f"CONTINUE MODEL m WITH (until = 'available') AS SELECT HISTORY(item, 5) {OVER} FROM STREAM log",
            "HISTORY",
            "row by row",
        ),
    ],
)
def test_what_cannot_have_a_history_is_reported_at_its_place(session: Session, statement: str, text: str, message: str) -> None:
    session.engine.register_rows("log", table_of([]))
    with pytest.raises(StatementError, match=message) as raised:
        session.sql(statement)
    assert raised.value.position is not None
    assert raised.value.position.text == text
    assert raised.value.position.column == statement.index(text) + 1


def test_an_error_without_a_place_shows_the_statement_as_written(session: Session) -> None:
    session.engine.register_rows("log", table_of(events_of([("a", 1, "x", 1)])))
    with pytest.raises(StatementError, match=r"outside an array.*at 'SELECT HISTORY\(item, 5\)"):
        session.sql(f"SELECT HISTORY(item, 5) {OVER}[0] FROM log")
