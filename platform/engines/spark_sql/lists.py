"""Long lists of whole numbers, `x IN (1, 2, ...)`: one node for all of a list, so that no step of reading a statement, copying
its tree and writing it again takes a node's time for each number."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

FEWEST = 100  # numbers that are worth a node of their own kind
DIGITS = len(str(2**31 - 1)) - 1  # what has no more is an INT
PACKED = "integers"


def packed_end(tokens: Sequence[Token], start: int) -> int | None:
    """Return where the parenthesis closes that opens before a token, where nothing but INTs with commas stands between."""
    place = start
    for number in count(1):
        if place < len(tokens) and tokens[place].token_type == TokenType.DASH:
            place += 1
        if place + 1 >= len(tokens) or tokens[place].token_type != TokenType.NUMBER:
            return None
        if len(tokens[place].text) > DIGITS or not tokens[place].text.isdecimal():
            return None
        if tokens[place + 1].token_type == TokenType.R_PAREN:
            return place + 1 if number >= FEWEST else None
        if tokens[place + 1].token_type != TokenType.COMMA:
            return None
        place += 2
    return None


def packed(tokens: Sequence[Token]) -> exp.Var:
    """Return one node for the numbers of a list, which prints as they do."""
    text = "".join(", " if token.token_type == TokenType.COMMA else token.text for token in tokens)
    node = exp.Var(this=text)
    node.meta[PACKED] = True
    return node


def is_packed(node: exp.Expr) -> bool:
    """Return whether a node is the numbers of a list."""
    return isinstance(node, exp.Var) and PACKED in node.meta


def unpacked(nodes: Sequence[exp.Expr]) -> list[exp.Expr]:
    """Return the nodes of a list, one for each value."""
    found: list[exp.Expr] = []
    for node in nodes:
        found += map(integer, node.name.split(", ")) if is_packed(node) else [node]
    return found


def integer(text: str) -> exp.Expr:
    digits = exp.Literal.number(text.removeprefix("-"))
    return exp.Neg(this=digits) if text.startswith("-") else digits
