"""The conditions of RELEASE WHEN: comparisons of metrics, combined by AND, OR and NOT.

condition  = conjunction {OR conjunction}
conjunction = test {AND test}
test       = NOT test | ( condition ) | sum (< | <= | > | >= | = | <> | !=) sum | sum [NOT] BETWEEN sum AND sum
sum        = product {(+ | -) product};   product = term {(* | /) term}
term       = number | - term | metric | PREVIOUS . metric | ( sum )
"""

from __future__ import annotations

from .cursor import Cursor

COMPARISONS = (("<", "="), (">", "="), ("<", ">"), ("!", "="), ("<",), (">",), ("=",))


def condition(cursor: Cursor) -> None:
    """Read a condition.

    Raises:
        StatementError: it is none.
    """
    conjunction(cursor)
    while cursor.accept("OR"):
        conjunction(cursor)


def conjunction(cursor: Cursor) -> None:
    test(cursor)
    while cursor.accept("AND"):
        test(cursor)


def test(cursor: Cursor) -> None:
    if cursor.accept("NOT"):
        return test(cursor)
    if cursor.peek("(") and not opens_sum(cursor):
        cursor.expect("(")
        condition(cursor)
        return cursor.expect(")")
    total(cursor)
    if cursor.accept("BETWEEN") or cursor.accept("NOT", "BETWEEN"):
        total(cursor)
        cursor.expect("AND")
    elif not any(cursor.accept(*symbols) for symbols in COMPARISONS):
        raise cursor.expected("a comparison (<, <=, >, >=, =, <>, BETWEEN)")
    return total(cursor)


def opens_sum(cursor: Cursor) -> bool:
    """Tell whether the parenthesis here holds a sum: what follows its end compares or computes."""
    after = cursor.closing() + 1
    symbols = {"<", ">", "=", "!", "+", "-", "*", "/", "BETWEEN"}
    return after < len(cursor.tokens) and cursor.tokens[after].text.upper() in symbols


def total(cursor: Cursor) -> None:
    product(cursor)
    while cursor.accept("+") or cursor.accept("-"):
        product(cursor)


def product(cursor: Cursor) -> None:
    term(cursor)
    while cursor.accept("*") or cursor.accept("/"):
        term(cursor)


def term(cursor: Cursor) -> None:
    if cursor.accept("-"):
        return term(cursor)
    if cursor.accept("("):
        total(cursor)
        return cursor.expect(")")
    if cursor.next_kind == "number":
        cursor.number()
        return None
    name = cursor.identifier("a metric")
    if name.lower() == "previous":
        cursor.expect(".")
        cursor.identifier("a metric")
    return None
