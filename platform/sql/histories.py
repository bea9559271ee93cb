"""HISTORY(value, n) in queries: found among the tokens, and written as the plain Spark SQL that it stands for.

A call is of the rows of its SELECT (OVER), of another relation (HISTORY JOIN), or of a history that the warehouse keeps. The
SELECT around it becomes one over a subquery that has its columns and the histories, so engines see only windows and joins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ..engines.spark_sql.lexer import Token, level, tokenize
from ..engines.spark_sql.passage import HISTORIES, Passage
from ..errors import StatementError
from ..quoting import quoted
from .history_sql import Lookup, subquery

if TYPE_CHECKING:
    from sqlglot import exp

    from .history_calls import HistoryJoin, KeptHistory

SET_OPERATORS = ("UNION", "EXCEPT", "MINUS", "INTERSECT")
TAIL = ("ORDER", "SORT", "CLUSTER", "DISTRIBUTE", "LIMIT", "OFFSET")
REFUSED = ("DISTINCT", "GROUP", "HAVING", "QUALIFY")
AFTER_JOIN = ("WHERE", "WINDOW", "JOIN", "LATERAL", "INNER", "LEFT", "RIGHT", "FULL", "CROSS", "NATURAL", "SEMI", "ANTI")
PLACE = "HISTORY must be among the columns of SELECT ... FROM. Give it a name in a subquery, and use the name."


def holds_history(passage: Passage) -> bool:
    """Return whether a text calls HISTORY."""
    return bool(calls_in(tokenize(passage)))


def calls_in(tokens: Sequence[Token]) -> list[int]:
    """Return the numbers of the tokens HISTORY that are calls."""
    return [
        index
        for index, token in enumerate(tokens[:-1])
        if token.text.upper() == "HISTORY" and tokens[index + 1].text == "(" and not (index and tokens[index - 1].text == ".")
    ]


def unknown(name: str) -> None:
    """Find no history: for a text that is checked before it runs."""


def written_out(passage: Passage, find: Callable[[str], KeptHistory | None]) -> Passage:
    """Return a text whose calls of HISTORY are plain Spark SQL.

    Args:
        find: returns the history of a name; None where any will do. Raises StatementError where there is none.

    Raises:
        StatementError: a call is not complete, or stands where none can; with its place.
    """
    while calls := calls_in(tokens := tokenize(passage)):
        passage = Selected(passage, tokens, calls[-1], find).rewritten()
    return passage


class Selected:
    """The SELECT around a call.

    Args:
        at: the number of the call's token.
    """

    def __init__(self, passage: Passage, tokens: Sequence[Token], at: int, find: Callable[[str], KeptHistory | None]) -> None:
        self.passage = passage
        self.tokens = tokens
        self.at = at
        self.find = find
        self.joined: HistoryJoin | None = None
        self.lookups: list[Lookup] = []
        self.carried: dict[str, str] = {}  # expression over FROM -> column of the subquery
        self.places: list[int] = []  # where each of these is written
        self.item = range(0)  # the tokens of the column that is read
        self.columns: list[int] = []  # where each column is written
        self.inner: list[Passage] = []
        self.outer: dict[str, str] = {}  # name -> expression over the subquery
        self.star: str | None = None
        self.events = tokens[at].start  # where the events are named

    def rewritten(self) -> Passage:
        """Return the text with this SELECT over a subquery."""
        first, end = self._bounds()
        source, tail = self._clauses(first, end)
        if not self.at < source < end:
            raise self._error(PLACE, self.at)
        rows = self._read_join(source, tail)
        for start, stop in self._items(first + 1, source):
            self.item = range(start, stop)
            self.columns.append(self.tokens[start].start)
            with self._placing(start):
                self._read_item(start, stop)
        self.item = range(tail, end)
        after = self._after(tail, end)
        before, behind = subquery(self.lookups)
        start = self.tokens[first].start
        glue = self.passage.inserted
        carried = zip(self.carried.items(), self.places, strict=True)
        columns = [*self.inner, *(glue(f"{expression} AS {name}", at) for (expression, name), at in carried)]
        return self.passage.cut(0, start).joined(
            *self._columns(start),
            glue(f" FROM ({before}SELECT ", start),
            *[piece for column in columns for piece in (glue(", ", start), column)][1:],
            glue(" ", start),
            rows,
            glue(f"{behind}) AS {HISTORIES}", self.events),
            *after,
            self.passage.cut(self.tokens[end - 1].end, len(self.passage.text)),
        )

    def _columns(self, start: int) -> Iterator[Passage]:
        """Yield SELECT, which stood at `start`, and its columns over the subquery, each where it stood."""
        hidden = [name for name in self.outer.values() if name.startswith("xpsql_i")]
        hidden += [*self.carried.values(), *(f"xpsql_h{number}" for number in range(len(self.lookups)))]
        yield self.passage.inserted("SELECT ", start)
        for number, ((name, expression), at) in enumerate(zip(self.outer.items(), self.columns, strict=True)):
            column = f"* EXCEPT ({', '.join(hidden)})" if name == self.star else f"{expression} AS {quoted(name.rstrip())}"
            yield self.passage.inserted(f", {column}" if number else column, at)

    def _bounds(self) -> tuple[int, int]:
        """Return the numbers of the token SELECT and of the one after the SELECT's last."""
        frames: list[int | None] = [None]
        for index, token in enumerate(self.tokens[: self.at]):
            if token.text == "(":
                frames.append(None)
            elif token.text == ")" and len(frames) > 1:
                frames.pop()
            elif token.text.upper() == "SELECT":
                frames[-1] = index
        first = next((select for select in reversed(frames) if select is not None), None)
        if first is None:
            raise self._error(PLACE, self.at)
        depth = 0
        for index in range(first, len(self.tokens)):
            depth += level(self.tokens[index])
            is_star = self.tokens[index - 1].text == "*"  # * EXCEPT (...)
            if depth < 0 or (depth == 0 and self.tokens[index].text.upper() in SET_OPERATORS and not is_star):
                return first, index
        return first, len(self.tokens)

    def _clauses(self, first: int, end: int) -> tuple[int, int]:
        """Return where FROM stands, and where what follows the rows does: their order or number."""
        source, depth = end, 0
        for index in range(first + 1, end):
            depth += level(self.tokens[index])
            word, before = self.tokens[index].text.upper(), self.tokens[index - 1].text.upper()
            if depth or self.tokens[index].kind != "word" or before in (".", "IS", "NOT", "AS") or before == "DISTINCT":
                continue
            if word in REFUSED and (source < end or index == first + 1):
                raise self._error(f"HISTORY and {word} cannot be in one SELECT. Put one of them into a subquery.", index)
            if word == "FROM" and source == end:
                source = index
            elif word in TAIL and source < end:
                return source, index
        return source, end

    def _items(self, first: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield the first token of each column and the one after its last."""
        start = first
        while start < end:
            stop = self._next(start, end, (",",))
            yield start, stop
            start = stop + 1

    def _read_item(self, first: int, end: int) -> None:
        from sqlglot import exp

        from ..engines.spark_sql.dialect import parse
        from ..engines.spark_sql.names import pretty

        text = self._between(first, end)
        tree = parse(f"SELECT {text.text}").expressions[0]
        if isinstance(tree, exp.Star) or (isinstance(tree, exp.Column) and isinstance(tree.this, exp.Star)):
            if self.star is not None:
                raise StatementError("A SELECT with HISTORY has one * at most. Name the columns.")
            self.star = f"{text.text} *"
            self.outer[self.star] = "*"
            self.inner.append(text)
            return
        if isinstance(tree, exp.Aliases):
            raise StatementError("A column next to HISTORY has one name. Put it into a subquery.")
        core = tree.this if isinstance(tree, exp.Alias) else tree
        name = tree.alias or (core.name if isinstance(core, exp.Column) else pretty(core, ()))
        while name in self.outer:
            name += " "
        if calls_in(self.tokens[first:end]):
            self.outer[name] = self._history(core)
            return
        if isinstance(tree, exp.Alias):
            end -= 2 if self.tokens[end - 2].text.upper() == "AS" else 1
        self.outer[name] = f"xpsql_i{len(self.inner)}"
        self.inner.append(self._between(first, end).joined(text.inserted(f" AS {self.outer[name]}", 0)))

    def _history(self, core: exp.Expr) -> str:
        """Return an expression that holds calls, over the columns of the subquery."""
        from sqlglot import exp

        from .history_calls import Reader, sql

        root = exp.Paren(this=core.copy())
        reader = Reader(self._carry, self.find, self.joined)
        for call in [node for node in root.find_all(exp.Anonymous) if node.name.upper() == "HISTORY"]:
            node: exp.Expr = call
            while isinstance(node.parent, exp.Filter | exp.Window) and node.parent.this is node:
                node = node.parent
            self.lookups.append(reader.lookup(node))
            node.replace(exp.column(f"xpsql_h{len(self.lookups) - 1}"))
        for column in list(root.find_all(exp.Column)):
            if not column.name.startswith("xpsql_h"):
                column.replace(exp.column(self._carry(sql(column))))
        return sql(root.this)

    def _carry(self, expression: str) -> str:
        """Return the name of the column of the subquery that has an expression over the rows of FROM."""
        if expression not in self.carried:
            self.carried[expression] = f"xpsql_c{len(self.carried)}"
            written = (index for index in self.item if self.tokens[index].text == expression)
            self.places.append(self.tokens[next(written, self.item.start)].start)
        return self.carried[expression]

    def _after(self, tail: int, end: int) -> list[Passage]:
        """Return ORDER BY and what follows, over the columns of the subquery."""
        from sqlglot import exp

        from ..engines.spark_sql.dialect import parse
        from .history_calls import sql

        if tail == end:
            return []
        text = self._between(tail, end)
        with self._placing(tail):
            tree = parse(f"SELECT 1 AS one FROM one {text.text}")
        parts = [tree.args[key] for key in ("cluster", "distribute", "sort", "order", "limit", "offset") if tree.args.get(key)]
        known = {name.lower() for name in self.outer}
        columns = [column for part in parts for column in part.find_all(exp.Column)]
        for column in columns:
            if column.table or column.name.lower() not in known:
                column.replace(exp.column(self._carry(sql(column))))
        return [text.inserted("".join(f" {sql(part).strip()}" for part in parts), 0)]

    def _read_join(self, source: int, tail: int) -> Passage:
        """Return FROM and what follows without HISTORY JOIN relation ON condition, which is read."""
        join = next((index for index in range(source, tail) if self._words(index, "HISTORY", "JOIN")), None)
        if join is None:
            return self._between(source, tail)
        from .history_calls import JOIN, joined_by

        on = self._next(join, tail, ("ON",))
        end = self._next(on, tail, AFTER_JOIN)
        if on == tail or (end < tail and self.tokens[end].text.upper() not in ("WHERE", "WINDOW")):
            raise self._error(f"Expected {JOIN}, as the last join.", join)
        self.events = self.tokens[join + 2].start
        with self._placing(on):
            self.joined = joined_by(self._between(join + 2, on).text, self._between(on + 1, end).text)
        return self._between(source, join).joined(self.passage.inserted(" ", 0), self._between(end, tail))

    def _next(self, first: int, end: int, words: Sequence[str]) -> int:
        """Return the number of the first of some words outside of parentheses, or the end."""
        depth = 0
        for index in range(first, end):
            depth += level(self.tokens[index])
            if depth == 0 and self.tokens[index].text.upper() in words:
                return index
        return end

    def _words(self, index: int, *words: str) -> bool:
        return tuple(token.text.upper() for token in self.tokens[index : index + len(words)]) == words

    def _between(self, first: int, end: int) -> Passage:
        """Return the text of the tokens from one to before another."""
        if first >= end:
            return self.passage.inserted("", self.tokens[min(first, len(self.tokens) - 1)].start)
        return self.passage.cut(self.tokens[first].start, self.tokens[end - 1].end)

    @contextmanager
    def _placing(self, index: int) -> Iterator[None]:
        """Place errors at a token: what is parsed here is made of pieces of the text."""
        try:
            yield
        except StatementError as error:
            raise self._error(error.message, index) from error

    def _error(self, message: str, index: int) -> StatementError:
        token = self.tokens[index]
        return StatementError(message, self.passage.position(token.start, token.text))
