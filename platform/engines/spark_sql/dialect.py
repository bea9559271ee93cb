"""Reading Spark SQL: one statement's text to a tree whose function calls keep their name, arguments and place.

sqlglot's Spark parser turns many calls into nodes of a common meaning that no engine has exactly. Here nearly all stay calls,
and `functions` says what each is in DuckDB.
"""

from __future__ import annotations

import difflib
import itertools
import re
from collections.abc import Callable
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError, TokenError
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import TokenType

from ...errors import Position, StatementError
from .limits import check_size
from .lists import packed, packed_end

INCOMPLETE = re.compile(r"Required keyword: '\w+' missing for <class '[^']*'>")
TOKEN = re.compile(r"<Token token_type: .*?, text: (?P<text>.*?), line: .*>")
UNEXPECTED = "Invalid expression / Unexpected token"  # of sqlglot
KEYWORDS = ("FROM", "GROUP", "HAVING", "JOIN", "LIMIT", "ORDER", "SELECT", "UNION", "WHERE")
SYNTAX = ("CAST", "TRY_CAST", "EXTRACT", "TRIM", "POSITION", "SUBSTRING", "SUBSTR", "OVERLAY")


class SparkSQL(Spark):
    """Spark SQL whose function calls are kept as written."""

    class Tokenizer(Spark.Tokenizer):
        STRING_ESCAPES = [*Spark.Tokenizer.STRING_ESCAPES, "'", '"']  # noqa: RUF012 - 'it''s'

    class Parser(SparkParser):
        ARRAY_CONSTRUCTORS: ClassVar[dict[str, type[exp.Func]]] = {}  # array(1, 2)[0] is a call, then an index
        FUNC_TOKENS = SparkParser.FUNC_TOKENS | {TokenType.CROSS}
        STRICT_CAST = True
        FUNCTIONS: ClassVar[dict[str, Callable[..., Any]]] = {}
        FUNCTION_PARSERS = {name: SparkParser.FUNCTION_PARSERS[name] for name in SYNTAX}  # noqa: RUF012
        NO_PAREN_FUNCTION_PARSERS = {  # noqa: RUF012
            name: parse for name, parse in SparkParser.NO_PAREN_FUNCTION_PARSERS.items() if name in ("CASE", "IF")
        }
        QUERY_MODIFIER_PARSERS = {  # noqa: RUF012 - without USING SAMPLE
            token: parse for token, parse in SparkParser.QUERY_MODIFIER_PARSERS.items() if token != TokenType.USING
        }

        def _parse_star_op(self, *keywords: str) -> list[exp.Expr] | None:
            """Read what may follow `*`: EXCEPT (columns), of all that other dialects have."""
            return super()._parse_star_op("EXCEPT") if "EXCEPT" in keywords else None

        def _parse_in(self, this: exp.Expr | None, alias: bool = False) -> exp.In:
            """Read what follows IN; a long list of whole numbers is one node."""
            start = self._index + 1
            end = packed_end(self._tokens, start) if self._curr.token_type == TokenType.L_PAREN else None
            if end is None:
                return super()._parse_in(this, alias)
            self._advance(end + 1 - self._index)
            return exp.In(this=this, expressions=[packed(self._tokens[start:end])])


def parse(text: str) -> exp.Expr:
    """Read one statement.

    Raises:
        StatementError: text that is not Spark SQL, with the place where reading stopped, or that is too long or too deep.
    """
    check_size(text)
    try:
        trees = trees_of(text, SparkSQL())
    except ParseError as error:
        raise unreadable(error, text) from error
    except TokenError as error:
        raise StatementError(f"The statement is not Spark SQL: {error}. Close every quote and comment.") from error
    if len(trees) != 1:
        raise StatementError(f"Expected one statement, got {len(trees)}. Run them one at a time.")
    return trees[0]


def trees_of(text: str, dialect: Spark) -> list[exp.Expr]:
    """Return what sqlglot reads, which breaks off with errors of Python on some texts.

    Raises:
        SqlglotError: text that is not Spark SQL.
    """
    parser, tokens = dialect.parser(), dialect.tokenize(text)
    for token, following in itertools.pairwise(tokens):
        if token.token_type == TokenType.WINDOW and following.token_type == TokenType.L_PAREN:
            token.token_type = TokenType.VAR  # a call of window, not the clause
    try:
        return [tree for tree in parser.parse(tokens, text) if tree is not None]
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        parser.raise_error("it cannot be read here")
        raise


def unreadable(error: ParseError, text: str) -> StatementError:
    detail = error.errors[0] if error.errors else {}
    reason = INCOMPLETE.sub("something is missing here", str(detail.get("description") or error)).rstrip(".")
    reason = TOKEN.sub(lambda token: "the end" if token["text"] == "SENTINEL" else repr(token["text"]), reason)
    found = str(detail.get("highlight") or "")
    position = Position(detail["line"], detail["col"] - max(len(found) - 1, 0), found) if detail.get("line") else None
    if position is not None and reason == UNEXPECTED:
        reason = f"{found!r} is not expected here"
    return StatementError(f"The statement is not Spark SQL: {reason}.{misspelt(text, position)}", position)


def misspelt(text: str, position: Position | None) -> str:
    """Return " Did you mean FROM, not FORM?" where the word before a position is nearly a keyword."""
    if position is None:
        return ""
    lines = text.split("\n")[: position.line]
    word = re.findall(r"\w+|$", "\n".join([*lines[:-1], lines[-1][: position.column - 1]]))[-2:-1]
    near = difflib.get_close_matches(word[0].upper(), KEYWORDS, n=1, cutoff=0.7) if word else []
    return f" Did you mean {near[0]}, not {word[0]}?" if near and word[0].upper() not in KEYWORDS else ""


def position_of(node: exp.Expr) -> Position | None:
    """Return where a node stands in the text it was read from: its own place, or that of its first part that has one."""
    for part in node.walk():
        if "line" in part.meta:
            length = part.meta["end"] - part.meta["start"] + 1
            return Position(part.meta["line"], part.meta["col"] - length + 1, part.name)
    return None
